import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { databaseUrl } from "../../src/config/database-url.js";
import { temporaryDirectory, type TemporaryDirectory } from "../support/temporary-directory.js";

let directory: TemporaryDirectory;
beforeEach(async () => {
  directory = await temporaryDirectory();
});
afterEach(() => directory[Symbol.asyncDispose]());

const place = (name: string): string => join(directory.path, name);

async function chosen(config: string, env: Record<string, string> = {}): Promise<string | null> {
  await writeFile(place("config.toml"), config);
  return databaseUrl({ HOLDFAST_CONFIG: place("config.toml"), ...env });
}

test("the environment overrides the config file, and in each the address overrides the name of a file", async () => {
  await writeFile(place("one"), "postgres://one\n");
  await writeFile(place("two"), "postgres://two\n");
  const file = `[database]\nurl-file = "${place("one")}"\n`;
  const both = `${file}url = "postgres://here"\n`;
  const variable = { HOLDFAST_DATABASE_URL_FILE: place("two") };
  expect(await chosen("")).toBeNull();
  expect(await chosen("[gateway]\n# no database\n")).toBeNull();
  expect(await chosen(file)).toBe("postgres://one");
  expect(await chosen(both)).toBe("postgres://here");
  expect(await chosen(both, variable)).toBe("postgres://two");
  expect(await chosen(both, { ...variable, HOLDFAST_DATABASE_URL: "postgres://said" })).toBe(
    "postgres://said",
  );
  expect(await chosen(file, { HOLDFAST_DATABASE_URL: "" })).toBe("postgres://one");
});

test.each([
  ["a slip", '[database]\nulr = "postgres://a:hunter2@b/c"', "database without url"],
  ["no table", 'database = "postgres://a:hunter2@b/c"', "database without url"],
  ["no text", "[database]\nurl = 7", "database without url"],
  ["no TOML", '[database]\nurl = "postgres://a:hunter2@b/c', "is not valid TOML, line 2"],
  ["no such file", '[database]\nurl-file = "/nowhere"', "cannot be read from /nowhere (ENOENT)"],
  ["an empty file", '[database]\nurl-file = "/dev/null"', "/dev/null contains no address of a database"],
])("%s is refused without the password, and not taken for no database", async (_, config, why) => {
  const error: unknown = await chosen(config).then(
    () => expect.fail("was accepted"),
    (reason: unknown) => reason,
  );
  expect(error).toMatchObject({ code: "BAD_INPUT", message: expect.stringContaining(why) });
  expect(String(error)).not.toContain("hunter2");
});
