import { spawnSync } from "node:child_process";
import { chown, mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { UnsafePath } from "../../src/errors.js";
import { readOwnFile, readOwnFileSync, requireNotLink, writeOwnFile } from "../../src/home/own-file.js";
import { temporaryDirectory, type TemporaryDirectory } from "../support/temporary-directory.js";

const OTHER = 65_533;

let place: TemporaryDirectory;
let file: string;

beforeEach(async () => {
  place = await temporaryDirectory();
  file = join(place.path, "file");
});
afterEach(() => place[Symbol.asyncDispose]());

async function refused(path: string, sentence: string): Promise<void> {
  await expect(readOwnFile(path)).rejects.toThrow(UnsafePath);
  await expect(readOwnFile(path)).rejects.toThrow(`${path} ${sentence}`);
  expect(() => readOwnFileSync(path)).toThrow(`${path} ${sentence}`);
  for (const how of ["truncate", "append"] as const)
    expect(() => writeOwnFile(path, "new", how)).toThrow(`${path} ${sentence}`);
}

test("a file is written privately, appended to and read", async () => {
  writeOwnFile(file, "one");
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  writeOwnFile(file, "two", "append");
  expect(await readOwnFile(file)).toBe("onetwo");
  writeOwnFile(file, "three");
  expect(readOwnFileSync(file)).toBe("three");
  await expect(readOwnFile(join(place.path, "missing"))).rejects.toMatchObject({ code: "ENOENT" });
});

test("a symbolic link is refused, and its target neither read nor written", async () => {
  const victim = join(place.path, "victim");
  await writeFile(victim, "precious");
  await symlink("victim", file);
  await refused(file, "is a symbolic link, which is not followed");
  expect(() => requireNotLink(file)).toThrow(UnsafePath);
  expect(await readFile(victim, "utf8")).toBe("precious");
  const dangling = join(place.path, "dangling");
  await symlink("missing", dangling);
  await refused(dangling, "is a symbolic link");
  await expect(stat(join(place.path, "missing"))).rejects.toThrow("ENOENT");
});

test("a directory and a FIFO are refused, and not waited for", async () => {
  const fifo = join(place.path, "fifo");
  expect(spawnSync("mkfifo", [fifo]).status).toBe(0);
  await refused(fifo, "is not a regular file");
  await mkdir(file);
  await expect(readOwnFile(file)).rejects.toThrow(`${file} is not a regular file`);
});

test.skipIf(process.getuid?.() !== 0)("a file of another user is refused, and not changed", async () => {
  await writeFile(file, "theirs");
  await chown(file, OTHER, OTHER);
  await refused(file, `belongs to uid ${OTHER}, and this is uid 0`);
  expect(await readFile(file, "utf8")).toBe("theirs");
});
