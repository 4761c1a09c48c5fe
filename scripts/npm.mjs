// Starts npm and other programs from scripts: without a shell, also on Windows, where npm is a batch file.

import { spawnSync } from "node:child_process";
import { dirname, join } from "node:path";

/** Runs npm to its end. */
export function npm(args, options = {}) {
  const [program, ...words] = npmCommand();
  return spawnSync(program, [...words, ...args], { stdio: "inherit", ...options });
}

function npmCommand() {
  if (process.platform !== "win32") return ["npm"];
  const beside = join(dirname(process.execPath), "node_modules/npm/bin/npm-cli.js");
  const running = process.env.npm_execpath ?? "";
  return [process.execPath, running.endsWith("npm-cli.js") ? running : beside];
}
