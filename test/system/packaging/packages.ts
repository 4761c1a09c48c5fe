import { execFile, spawnSync } from "node:child_process";
import { realpathSync } from "node:fs";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect } from "vitest";

export const execFileAsync = promisify(execFile);

/** Removed after the tests of the file. */
export async function temporaryDirectoryForFile(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "hf-"));
  afterAll(() => rm(directory, { recursive: true, force: true, maxRetries: 5 }));
  return directory;
}

/** Packs the current build with the anchors of some platforms; returns the paths of the tarballs. */
export async function packTarballs(
  targets: readonly string[],
  to: string,
): Promise<{ main: string; anchors: readonly string[] }> {
  const pack = ["scripts/pack.mjs", "--built", "--no-fetch", "--to", to];
  const named = targets.flatMap((target) => ["--target", target]);
  await execFileAsync(process.execPath, [...pack, ...named]);
  const files = (await readdir(to)).filter((name) => name.endsWith(".tgz"));
  const find = (start: string): string =>
    join(
      to,
      files.find((name) => name.startsWith(start)) ?? expect.fail(`no ${start} in ${files.join(", ")}`),
    );
  return { main: find("holdfast-0"), anchors: targets.map((target) => find(`holdfast-anchor-${target}-`)) };
}

/**
 * Installs packages without scripts, for this platform or the one that `flags` name. The anchors are optional, as those
 * of the main package are: npm leaves out those of other platforms.
 */
export async function installTarballs(
  project: string,
  { main, anchors }: { readonly main: string; readonly anchors: readonly string[] },
  {
    flags = [],
    env = process.env,
  }: { readonly flags?: readonly string[]; readonly env?: NodeJS.ProcessEnv } = {},
): Promise<void> {
  const nameOf = (path: string): string => /holdfast-(anchor-\w+-[a-z]+\d+)-/.exec(path)?.[1] ?? path;
  const manifest = {
    private: true,
    type: "module",
    dependencies: { holdfast: `file:${main}` },
    optionalDependencies: Object.fromEntries(
      anchors.map((path) => [`@holdfast/${nameOf(basename(path))}`, `file:${path}`]),
    ),
  };
  await writeFile(join(project, "package.json"), JSON.stringify(manifest));
  const npm = npmPath();
  const cache = (await execFileAsync(process.execPath, [npm, "config", "get", "cache"])).stdout.trim();
  const quiet = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund", "--cache", cache];
  await execFileAsync(process.execPath, [npm, "install", ...quiet, ...flags], { cwd: project, env });
}

/** The npm of this Node, for a PATH without npm. */
function npmPath(): string {
  return realpathSync(join(dirname(process.execPath), "npm"));
}

export function isInstalled(command: string): boolean {
  return spawnSync(command, ["--version"], { stdio: "ignore" }).status === 0;
}
