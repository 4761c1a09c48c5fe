// Installs what the conformance test of the MCP server needs: the official suite, and the Node that the suite runs on,
// both from npm, below the platform's cache directory. Without them the test is skipped.
//
// Usage: npm run mcp:fetch
//
// MCP_CONFORMANCE_DIRECTORY chooses another directory.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheDirectory } from "../zig.mjs";

const SUITE = "0.2.0-alpha.12";
const NODE = "22.23.3";

const directory =
  process.env.MCP_CONFORMANCE_DIRECTORY ||
  join(cacheDirectory(), "holdfast", `mcp-conformance-${SUITE}-node-${NODE}`);

/** The command that runs the suite. Null: it is not installed. */
export function conformanceCommand() {
  const modules = join(directory, "node_modules");
  const command = [
    join(modules, `node-${process.platform}-${process.arch}`, "bin", "node"),
    join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js"),
  ];
  return command.every((file) => existsSync(file)) ? command : null;
}

function install() {
  if (existsSync(directory)) return;
  const unfinished = `${directory}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true });
  writeFileSync(join(unfinished, "package.json"), '{ "private": true }\n');
  const packages = [
    `@modelcontextprotocol/conformance@${SUITE}`,
    `node-${process.platform}-${process.arch}@${NODE}`,
  ];
  // The suite needs the Node that is installed with it, not the one that runs npm.
  const flags = ["--engine-strict=false", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
  const { status } = spawnSync("npm", ["install", ...flags, ...packages], {
    cwd: unfinished,
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (status === 0) renameSync(unfinished, directory);
  else rmSync(unfinished, { recursive: true, force: true });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  install();
  if (conformanceCommand() === null) {
    console.error(`the conformance suite could not be installed in ${directory}`);
    process.exitCode = 1;
  } else console.log(`the conformance suite is in ${directory}`);
}
