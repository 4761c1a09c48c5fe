import { spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";

const script = resolve("scripts/release/check-binary.mjs");
/** Libraries of other systems, from packages of npm. */
const library = (target: string): string =>
  resolve(`node_modules/@photostructure/sqlite/prebuilds/${target}/@photostructure+sqlite.glibc.node`);
let directory: string;

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), "hf-"));
});
afterAll(() => rmSync(directory, { recursive: true }));

function problemsOf(file: string, target: string, ...options: readonly string[]): string {
  const { stderr } = spawnSync(process.execPath, [script, file, target, ...options], { encoding: "utf8" });
  return stderr;
}

const built = resolve("build/anchor");

test.skipIf(process.platform !== "linux")("a static program passes, and only for its own platform", () => {
  const [own, other] = process.arch === "x64" ? ["linux-x64", "linux-arm64"] : ["linux-arm64", "linux-x64"];
  expect(problemsOf(built, own, "--glibc")).toBe("");
  expect(problemsOf(built, other, "--glibc")).toContain("is for another processor");
  expect(problemsOf(built, "win32-x64")).toContain("is not a Windows program");
  expect(problemsOf(built, "darwin-arm64")).toContain("is not a 64-bit Mach-O file");
});

test.skipIf(process.platform !== "linux")(
  "a program that is damaged, or has an executable stack, is refused",
  () => {
    const copy = join(directory, "anchor");
    const bytes = readFileSync(built);
    writeFileSync(copy, bytes.subarray(0, 100));
    expect(problemsOf(copy, `linux-${process.arch}`, "--glibc")).toContain("point outside of the file");
    const GNU_STACK = 0x6474e551;
    const start = Number(bytes.readBigUInt64LE(32));
    const segments = Array.from({ length: bytes.readUInt16LE(56) }, (_, at) => start + at * 56);
    const stack =
      segments.find((at) => bytes.readUInt32LE(at) === GNU_STACK) ?? expect.fail("no stack segment");
    bytes.writeUInt32LE(7, stack + 4);
    writeFileSync(copy, bytes);
    expect(problemsOf(copy, `linux-${process.arch}`, "--glibc")).toContain("executable stack");
  },
);

test.skipIf(process.platform !== "linux")("a program that is linked dynamically is refused", () => {
  const copy = join(directory, "true");
  copyFileSync("/bin/true", copy);
  expect(problemsOf(copy, `linux-${process.arch}`)).toContain("is linked dynamically");
});

test("a program of Windows that exports symbols, is too large, or loads an unknown library is refused", () => {
  const copy = join(directory, "library");
  const bytes = readFileSync(library("win32-x64"));
  bytes.write("KERNEL99.dll", bytes.indexOf("KERNEL32.dll"));
  writeFileSync(copy, bytes);
  const problems = problemsOf(copy, "win32-x64");
  expect(problems).toContain("exports symbols");
  expect(problems).toMatch(/bytes are more than/);
  expect(problems).toContain("loads libraries that Windows may not have: KERNEL99.dll");
  expect(problemsOf(library("win32-arm64"), "win32-x64")).toContain("is for another processor");
});

test("a library of macOS, or one with more than the system's library, is refused", () => {
  const problems = problemsOf(library("darwin-x64"), "darwin-x64");
  expect(problems).toContain("is not a program");
  expect(problems).toContain("instead of /usr/lib/libSystem.B.dylib");
  expect(problemsOf(library("darwin-x64"), "darwin-arm64")).toContain("is for another processor");
});
