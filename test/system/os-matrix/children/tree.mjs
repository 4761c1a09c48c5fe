// Says that it is here, and stays until it is ended: node tree.mjs [<generations below>]
import { spawn } from "node:child_process";

const [, script, below = "0"] = process.argv;
if (Number(below) > 0)
  spawn(process.execPath, [script, String(Number(below) - 1)], { stdio: ["ignore", "inherit", "inherit"] });
console.log(`here ${process.pid}`);
setInterval(() => {}, 1_000_000);
