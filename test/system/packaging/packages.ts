import { execFile, spawnSync } from "node:child_process";
import { realpathSync } from "node:fs";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
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

/** Packs the current build with the anchor of one platform; returns the paths of the tarballs. */
export async function packTarballs(target: string, to: string): Promise<{ main: string; anchor: string }> {
  const pack = ["scripts/pack.mjs", "--built", "--gcc", "--target", target, "--to", to];
  await execFileAsync(process.execPath, pack);
  const files = await readdir(to);
  const find = (pattern: RegExp): string => join(to, files.find((name) => pattern.test(name)) ?? "nothing");
  return { main: find(/^holdfast-\d.*\.tgz$/), anchor: find(/^holdfast-anchor-/) };
}

/** Installs packages as a user does, without scripts, for this platform or the one that `flags` name. */
export async function installTarballs(
  project: string,
  tarballs: readonly string[],
  {
    flags = [],
    env = process.env,
  }: { readonly flags?: readonly string[]; readonly env?: NodeJS.ProcessEnv } = {},
): Promise<void> {
  await writeFile(join(project, "package.json"), '{ "private": true, "type": "module" }\n');
  const npm = npmPath();
  const cache = (await execFileAsync(process.execPath, [npm, "config", "get", "cache"])).stdout.trim();
  const quiet = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--cache", cache];
  await execFileAsync(process.execPath, [npm, "install", ...quiet, ...flags, ...tarballs], {
    cwd: project,
    env,
  });
}

/** The npm of this Node, for a PATH without npm. */
export function npmPath(): string {
  return realpathSync(join(dirname(process.execPath), "npm"));
}

export function isInstalled(command: string): boolean {
  return spawnSync(command, ["--version"], { stdio: "ignore" }).status === 0;
}
