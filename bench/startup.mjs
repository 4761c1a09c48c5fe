// Start-up time of a command that does almost nothing, compared with `node -e 0`, alternating. The floor of a command in
// Node is a file that does nothing, and of one that asks the gateway, a file that proves a token over a socket.
//
// Usage: node bench/startup.mjs [count]
import { spawn, spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gatewaySocketPath } from "../dist/home/state-directory.js";
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

/** What a request needs at least: HTTP is written by hand, and the server answers nothing. */
const PROOF = `const { createHmac, randomBytes } = require("node:crypto");
createHmac("sha256", randomBytes(32)).update(randomBytes(32)).digest();
const socket = require("node:net").connect(process.argv[2], () => socket.write("GET /none HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n"));
socket.once("data", () => socket.destroy());`;

async function measure(name, home, ...args) {
  const { ours, theirs } = await sideBySide(
    count,
    () => node(home, ...args),
    () => node(home, "-e", "0"),
  );
  return row(name, ours, theirs, 1);
}

async function floorFile(name, text) {
  const path = join(resident, name);
  await writeFile(path, text);
  return path;
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
    rows.push(await measure(`start-up: ${name}, ms`, home, main, ...args));
  }
  const [doesNothing, asks] = [await floorFile("nothing.cjs", ""), await floorFile("ask.cjs", PROOF)];
  rows.push(await measure("floor: an empty file, ms", resident, doesNothing));
  rows.push(
    await measure("floor: one request to the gateway, ms", resident, asks, gatewaySocketPath(resident)),
  );
  console.log(JSON.stringify(rows));
} finally {
  holdfast("gateway", "stop", "--runs", "terminate");
  await rm(resident, { recursive: true, force: true });
}
