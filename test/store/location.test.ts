import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parseStoreLocation } from "../../src/store/location.js";
import { temporaryDirectory } from "../support/temporary-directory.js";

test("an address in a variable or a file is read, and no error shows it", async () => {
  await using directory = await temporaryDirectory();
  const file = join(directory.path, "address");
  const url = "postgres://ada:hunter2@db/x";
  await writeFile(file, `${url}\n`);
  expect(await parseStoreLocation(`url-file:${file}`)).toEqual({ kind: "postgres", url });
  expect(await parseStoreLocation("env:HERE", { HERE: url })).toEqual({ kind: "postgres", url });
  await expect(parseStoreLocation("env:THERE", {})).rejects.toThrow("the environment has no THERE");
  for (const nameless of ["env:", "url-file:"])
    await expect(parseStoreLocation(nameless, {})).rejects.toThrow();
  await expect(parseStoreLocation("/")).rejects.toThrow("/ is a directory; a store is a file");
  const wrong = await parseStoreLocation("env:HERE", { HERE: "mysql://ada:hunter2@db/x" }).catch(String);
  expect(wrong).toContain("must look like");
  expect(wrong).not.toContain("hunter2");
});
