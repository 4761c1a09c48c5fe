import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const execute = promisify(execFile);

/**
 * A directory for the programs of others, and how to dispose of it. With HOLDFAST_BENCH_PREFIX it is that one, which is
 * kept, so that several benchmarks download once.
 */
export async function programsDirectory() {
  const kept = process.env.HOLDFAST_BENCH_PREFIX;
  if (kept !== undefined) {
    await mkdir(kept, { recursive: true });
    return { prefix: kept, dispose: async () => {} };
  }
  const prefix = await mkdtemp(join(tmpdir(), "hf-peers-"));
  return { prefix, dispose: () => rm(prefix, { recursive: true, force: true, maxRetries: 5 }) };
}

/**
 * Unpacks Debian packages into a directory of their own below the prefix and returns it. Nothing is installed: no script
 * of a package runs. Throws if a package cannot be downloaded.
 */
export async function unpackDebian(prefix, packages) {
  const directory = join(prefix, packages[0]);
  if (existsSync(directory)) return directory;
  const partial = await mkdtemp(join(prefix, "partial-"));
  await execute("apt-get", ["download", ...packages], { cwd: partial });
  for (const name of (await readdir(partial)).filter((each) => each.endsWith(".deb")))
    await execute("dpkg", ["-x", join(partial, name), partial]);
  await rename(partial, directory);
  return directory;
}

/** Installs an npm package below the prefix, without its scripts, and returns its directory. */
export async function unpackNpm(prefix, name, version) {
  const directory = join(prefix, `npm-${name}`);
  const installed = join(directory, "node_modules", name);
  if (existsSync(installed)) return installed;
  await mkdir(directory, { recursive: true });
  await execute("npm", [
    ...["install", "--prefix", directory, "--ignore-scripts", "--no-audit", "--no-fund", "--no-save"],
    `${name}@${version}`,
  ]);
  return installed;
}
