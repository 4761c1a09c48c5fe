import { spawnSync } from "node:child_process";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll } from "vitest";

const cc = process.env["CC"]?.trim() || "cc";

/** Null: there is a compiler. Otherwise the reason to skip. */
export const whyNoCompiler: string | null =
  spawnSync(cc, ["--version"], { shell: true }).status === 0
    ? null
    : `no C compiler (${cc}) for what only C can do`;

/** Builds programs from `native/` for the tests of a file, where every user may run them. Returns their directory. */
export function buildNativePrograms(...names: readonly string[]): string {
  const directory = mkdtempSync(join(tmpdir(), "hf-"));
  chmodSync(directory, 0o755);
  beforeAll(() => {
    for (const name of whyNoCompiler === null ? names : []) buildNativeProgram(name, directory);
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** Returns the path of the program. */
export function buildNativeProgram(name: string, directory: string): string {
  const source = fileURLToPath(new URL(`native/${name}.c`, import.meta.url));
  const path = join(directory, name);
  const line = `${cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -O2 -pthread -o "$1" "$2"`;
  const { status, stderr } = spawnSync("sh", ["-c", line, "sh", path, source], { encoding: "utf8" });
  if (status !== 0) throw new Error(`${name}.c: ${stderr}`);
  return path;
}
