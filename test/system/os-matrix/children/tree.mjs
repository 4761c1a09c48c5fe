// Writes a file named by its pid, and stays until it is ended: node tree.mjs <directory> [<generations below>]
// Not all of them have standard output: see `conptyWithoutHandles`.
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

const [, script, directory, below = "0"] = process.argv;
if (Number(below) > 0)
  spawn(process.execPath, [script, directory, String(Number(below) - 1)], {
    stdio: "ignore",
    // Otherwise Node ends it with this process, on Windows.
    detached: process.platform === "win32",
  });
writeFileSync(join(directory, String(process.pid)), "");
setInterval(() => {}, 1_000_000);
