import { execFile, spawnSync } from "node:child_process";
import { realpathSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll } from "vitest";

export const execFileAsync = promisify(execFile);

/** Removed after the tests of the file. */
export async function temporaryDirectoryForFile(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "hf-"));
  afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }));
  return directory;
}

/** Packs the current build; returns the paths of the tarballs. */
export async function packTarballs(
  arch: "x64" | "arm64",
  to: string,
): Promise<{ main: string; anchor: string }> {
  await execFileAsync(process.execPath, [
    "scripts/pack.mjs",
    "--built",
    "--target",
    `linux-${arch}`,
    "--to",
    to,
  ]);
  const files = await readdir(to);
  const find = (pattern: RegExp): string => join(to, files.find((name) => pattern.test(name)) ?? "nothing");
  return { main: find(/^holdfast-\d.*\.tgz$/), anchor: find(/^holdfast-anchor-/) };
}

/** The npm of this Node, for a PATH without npm. */
export function npmPath(): string {
  return realpathSync(join(dirname(process.execPath), "npm"));
}

export function isInstalled(command: string): boolean {
  return spawnSync(command, ["--version"], { stdio: "ignore" }).status === 0;
}
