import { createHash } from "node:crypto";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { findAnchorBinary, installAnchorBinary } from "../../src/anchor/binary.js";
import { AnchorUnusable } from "../../src/errors.js";

let home: string;
let source: string;
const CONTENT = "\x7fELF, as far as anybody looks\n";
const NAME = `anchor-${createHash("sha256").update(CONTENT).digest("hex").slice(0, 16)}`;

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "holdfast-binary-"));
  source = join(home, "source");
  await writeFile(source, CONTENT);
});

afterEach(async () => {
  await rm(home, { recursive: true, force: true });
});

test("the copy is named by its content, private and executable", async () => {
  const path = await installAnchorBinary(home, source);
  expect(path).toBe(join(home, "bin", NAME));
  expect(await readFile(path, "utf8")).toBe(CONTENT);
  expect((await stat(path)).mode & 0o777).toBe(0o700);
});

test("installing again changes nothing", async () => {
  const before = await stat(await installAnchorBinary(home, source));
  const after = await stat(await installAnchorBinary(home, source));
  expect([after.ino, after.mtimeMs]).toEqual([before.ino, before.mtimeMs]);
});

test("concurrent installations leave one intact copy and no other file", async () => {
  await Promise.all(Array.from({ length: 20 }, () => installAnchorBinary(home, source)));
  expect(await readdir(join(home, "bin"))).toEqual([NAME]);
});

test.each([
  ["damaged", (path: string) => writeFile(path, "#!/bin/sh\nexit 1\n")],
  ["cut off", (path: string) => writeFile(path, "")],
  ["not executable", (path: string) => chmod(path, 0o600)],
  ["open to others", (path: string) => chmod(path, 0o777)],
  [
    "replaced by a link",
    async (path: string) => {
      await rm(path);
      await symlink(source, path);
    },
  ],
])("a copy that was %s is replaced", async (_what, spoil) => {
  const path = await installAnchorBinary(home, source);
  await spoil(path);
  expect(await installAnchorBinary(home, source)).toBe(path);
  expect(await readFile(path, "utf8")).toBe(CONTENT);
  expect((await stat(path)).mode & 0o777).toBe(0o700);
  expect(await readFile(source, "utf8")).toBe(CONTENT);
});

test("an upgrade keeps the previous copy", async () => {
  const former = await installAnchorBinary(home, source);
  await writeFile(source, `${CONTENT}# 2\n`);
  const path = await installAnchorBinary(home, source);
  expect(path).not.toBe(former);
  expect(await readFile(former, "utf8")).toBe(CONTENT);
});

test("the error about a missing binary names it and says how to repair it", async () => {
  const failed = await installAnchorBinary(home, join(home, "none")).catch((error: unknown) => error);
  expect(failed).toBeInstanceOf(AnchorUnusable);
  expect(String(failed)).toMatch(/none is missing.*HOLDFAST_ANCHOR/s);
});

test("the error about an unwritable state directory names it", async () => {
  await mkdir(join(home, "other"));
  await writeFile(join(home, "other", "bin"), "a file");
  await expect(installAnchorBinary(join(home, "other"), source)).rejects.toBeInstanceOf(AnchorUnusable);
});

test("the binary is the package's unless HOLDFAST_ANCHOR names another", () => {
  expect(findAnchorBinary({})).toMatch(/\/build\/anchor$/);
  expect(findAnchorBinary({ HOLDFAST_ANCHOR: "/x/y" })).toBe("/x/y");
});
