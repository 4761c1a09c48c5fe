// Fetches the real ACP agents for the suite of real agents, each into its own directory below the platform's cache
// directory: nothing global, nothing in this project. agent-packages.json pins their versions; an agent that needs a
// newer Node has one beside it.
//
// Usage: npm run agents:fetch                       fetch missing agents, print the directory
//        npm run test:agents [-- <vitest arguments>] the same, then run the suite
//
// AGENTS_DIRECTORY chooses another directory. Removing the directory removes everything. No login is needed: the suite
// brings its own model on loopback.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheDirectory } from "../zig.mjs";

const packages = JSON.parse(readFileSync(new URL("agent-packages.json", import.meta.url), "utf8"));
const directory = process.env.AGENTS_DIRECTORY || join(cacheDirectory(), "holdfast", "agents");
const [command, ...rest] = process.argv.slice(2);

for (const [name, wanted] of Object.entries(packages)) fetchAgent(name, wanted);
console.log(`the agents are in ${directory}`);
if (command === "test") {
  const { status } = spawnSync(
    process.execPath,
    [fileURLToPath(new URL("../test.mjs", import.meta.url)), ...rest],
    {
      stdio: "inherit",
      env: { ...process.env, AGENT_SUITE: directory },
    },
  );
  process.exitCode = status ?? 1;
}

function fetchAgent(name, wanted) {
  const place = join(directory, wanted[0].split("/").at(-1));
  if (existsSync(place)) return;
  console.log(`fetching ${name}: ${wanted.join(", ")}`);
  // Under a temporary name until it is complete.
  const unfinished = `${place}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true });
  writeFileSync(join(unfinished, "package.json"), '{ "private": true }\n');
  const { status } = spawnSync(
    "npm",
    ["install", "--no-audit", "--no-fund", "--loglevel=error", "--no-engine-strict", ...wanted],
    {
      cwd: unfinished,
      stdio: "inherit",
    },
  );
  if (status === 0) return renameSync(unfinished, place);
  rmSync(unfinished, { recursive: true, force: true });
  console.error(`${name} could not be fetched`);
  process.exit(1);
}
