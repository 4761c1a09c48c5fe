// Through the gateway against speaking to the same agent directly: a turn of one update, from the prompt to its end; a
// flood of updates, each kept in the store before the next is let go of, and what the gateway's memory grows by.
// Usage: node bench/acp.mjs [turns] [updates]
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { reach, startGateway } from "../dist/gateway/start.js";
import { quantile, row, sideBySide } from "./measure.mjs";

const turns = Number(process.argv[2] ?? 200);
const updates = Number(process.argv[3] ?? 50_000);
const argv = [process.execPath, fileURLToPath(new URL("acp-agent.mjs", import.meta.url))];

/** The least a client can do: write a line, parse what comes until the answer. */
function direct() {
  const child = spawn(argv[0], argv.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  let nextId = 1;
  const waiting = new Map();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id } = JSON.parse(line);
    waiting.get(id)?.();
    waiting.delete(id);
  });
  const ask = (method, params) =>
    new Promise((resolve) => {
      waiting.set(nextId, resolve);
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: nextId++, method, params })}\n`);
    });
  const prompt = (words) =>
    ask("session/prompt", { sessionId: "s", prompt: [{ type: "text", text: `${words}` }] });
  return { ask, prompt, end: () => child.stdin.end() };
}

/** Resident memory at its highest, MB. */
function peak(pid) {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

async function timed(work) {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

const home = await mkdtemp(join(tmpdir(), "hf-"));
await startGateway(home);
const { client, status } = await reach(home);
const bare = direct();
try {
  await bare.ask("initialize", { protocolVersion: 1 });
  await bare.ask("session/new", { cwd: home, mcpServers: [] });
  await client.acpSpawn({ body: { argv, cwd: home, key: "bench" } });
  const params = { id: "bench" };
  const prompt = (words) => client.acpPrompt({ params, body: { text: `${words}` } });
  const { ours, theirs } = await sideBySide(
    turns,
    () => prompt(1),
    () => bare.prompt(1),
  );
  const before = peak(status.pid);
  const rates = { ours: [], theirs: [] };
  for (let round = 0; round < 3; round++) {
    rates.ours.push(updates / ((await timed(() => prompt(updates))) / 1000));
    rates.theirs.push(updates / ((await timed(() => bare.prompt(updates))) / 1000));
  }
  const middle = (values) => quantile(values, 0.5);
  console.log(
    JSON.stringify([
      row("ACP turn of one update, ms", ours, theirs),
      {
        measured: `ACP updates/s, ${updates} in a turn`,
        "holdfast p50/p99": middle(rates.ours).toFixed(0),
        "bare p50/p99": middle(rates.theirs).toFixed(0),
        "ratio p50": (middle(rates.ours) / middle(rates.theirs)).toFixed(2),
      },
      {
        measured: "gateway's memory, peak before and in the flood, MB",
        "holdfast p50/p99": `${before.toFixed(0)} → ${peak(status.pid).toFixed(0)}`,
      },
    ]),
  );
  await client.acpClose({ params });
} finally {
  bare.end();
  await client.stop({ body: { runs: "terminate" } });
  while ((await reach(home).catch(() => null)) !== null) await new Promise((done) => setTimeout(done, 20));
  await rm(home, { recursive: true, force: true });
}
