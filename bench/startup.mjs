// Start-up time of a command that does almost nothing, compared with `node -e 0`, alternating.
//
// Usage: node bench/startup.mjs [count]
import { spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { row, sideBySide } from "./measure.mjs";

const count = Number(process.argv[2] ?? 20);
const main = new URL("../dist/bundle/main.cjs", import.meta.url).pathname;
const empty = join(tmpdir(), "hf-nothing-was-ever-run");
const resident = await mkdtemp(join(tmpdir(), "hf-"));

function node(home, ...args) {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, HOLDFAST_HOME: home };
    const child = spawn(process.execPath, args, { stdio: "ignore", env });
    child.on("error", reject);
    child.on("close", (code) =>
      code === 0 ? resolve() : reject(new Error(`${args.join(" ")}: exit code ${code}`)),
    );
  });
}

function holdfast(...args) {
  const env = { ...process.env, HOLDFAST_HOME: resident };
  return spawnSync(process.execPath, [main, ...args], { encoding: "utf8", env }).stdout.trim();
}

try {
  const runId = holdfast("run", "--detach", "--", "sleep", "1000");
  const measured = [
    ["--version", empty, "--version"],
    ["--help", empty, "--help"],
    ["ps, nothing recorded", empty, "ps"],
    ["ps, one run", resident, "ps"],
    ["runs list, one run", resident, "runs", "list"],
    ["gateway status", resident, "gateway", "status"],
    ["process poll", resident, "process", "poll", runId, "--wait", "0"],
  ];
  const rows = [];
  for (const [name, home, ...args] of measured) {
    const bare = () => node(home, "-e", "0");
    const { ours, theirs } = await sideBySide(count, () => node(home, main, ...args), bare);
    rows.push(row(`start-up: ${name}, ms`, ours, theirs, 1));
  }
  console.log(JSON.stringify(rows));
} finally {
  holdfast("gateway", "stop", "--runs", "terminate");
  await rm(resident, { recursive: true, force: true });
}
