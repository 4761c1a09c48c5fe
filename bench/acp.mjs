// Compares the gateway with a direct connection to the same agent: a turn of one update, from the prompt to its end;
// and a flood of updates, each stored before the next is acknowledged. A minimal gateway, which only takes the steps that
// none can leave out, shows the floor of both. Also measures the gateway's own CPU time, and
// its peak memory after floods of small and of large updates, and after a caller has read all of them in the largest
// pages.
//
// Usage: node bench/acp.mjs [turns] [updates]
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { Agent, request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { reachGateway } from "../dist/gateway/locate-gateway.js";
import { startGateway } from "../dist/gateway/start-in-background.js";
import { inTurns, quantile, row } from "./measure.mjs";

const turns = Number(process.argv[2] ?? 200);
const updates = Number(process.argv[3] ?? 50_000);
const WARM = 20;
const ROUNDS = 3;
const LARGE = 64;
const MIB = 1024 * 1024;
const argv = [process.execPath, fileURLToPath(new URL("acp-agent.mjs", import.meta.url))];

/** The minimal client: writes a line, parses messages until the answer. */
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

/** A client of the minimal gateway. */
async function minimal() {
  const script = fileURLToPath(new URL("support/minimal-acp-gateway.mjs", import.meta.url));
  const socketPath = join(home, "minimal.sock");
  const child = spawn(process.execPath, [script, socketPath, join(home, "minimal.sqlite"), ...argv], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout, "data");
  const kept = new Agent({ keepAlive: true });
  const prompt = async (words) => {
    const request = httpRequest({ socketPath, agent: kept, method: "POST", path: "/" });
    request.end(JSON.stringify({ text: `${words}` }));
    const [response] = await once(request, "response");
    return text(response);
  };
  return { prompt, end: () => child.kill() };
}

/** Peak resident memory, MB. */
function peak(pid) {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
}

const TICK_MS = 10;
/** CPU time in ms, including processes it has started and reaped. */
function cpu(pid) {
  const facts = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ");
  return facts.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks) * TICK_MS, 0);
}

async function timed(work) {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

const home = await mkdtemp(join(tmpdir(), "hf-"));
await startGateway(home);
const { client, status } = await reachGateway(home);
const bare = direct();
const floor = await minimal();
try {
  await bare.ask("initialize", { protocolVersion: 1 });
  await bare.ask("session/new", { cwd: home, mcpServers: [] });
  await client.acpSpawn({ body: { argv, cwd: home, key: "bench" } });
  const params = { id: "bench" };
  const prompt = (words) => client.acpPrompt({ params, body: { text: `${words}` } });
  const spent = { turns: 0, updates: 0 };
  let made = 0;
  const counted = async (what, work) => {
    const before = cpu(status.pid);
    await work();
    spent[what] += cpu(status.pid) - before;
  };
  for (let warm = 0; warm < WARM; warm++) {
    await prompt(1);
    await floor.prompt(1);
  }
  const [ours, theirs, least] = await inTurns(
    turns,
    () => {
      made++;
      return counted("turns", () => prompt(1));
    },
    () => bare.prompt(1),
    () => floor.prompt(1),
  );
  const memory = [peak(status.pid)];
  const rates = { ours: [], theirs: [], least: [] };
  for (let round = 0; round < ROUNDS; round++) {
    rates.ours.push(updates / ((await timed(() => counted("updates", () => prompt(updates)))) / 1000));
    rates.theirs.push(updates / ((await timed(() => bare.prompt(updates))) / 1000));
    rates.least.push(updates / ((await timed(() => floor.prompt(updates))) / 1000));
  }
  memory.push(peak(status.pid));
  await prompt(`${LARGE} ${MIB}`);
  memory.push(peak(status.pid));
  let read = 0;
  for (let after = 0, page; page === undefined || page.updates.length > 0; after = page.after) {
    page = await client.acpWatch({ params, query: { after, limit: 1_000 } });
    read += page.updates.length;
  }
  memory.push(peak(status.pid));
  const middle = (values) => quantile(values, 0.5);
  const [rest, ...later] = memory.map((size) => size.toFixed(0));
  console.log(
    JSON.stringify([
      row("ACP turn of one update, ms", ours, theirs),
      row("the unavoidable steps of a turn: HTTP, a relay, two commits, ms", least, theirs),
      {
        measured: "of it, the gateway's CPU, ms",
        "holdfast p50/p99": (spent.turns / made).toFixed(2),
      },
      {
        measured: `ACP updates/s, ${updates} in a turn`,
        "holdfast p50/p99": middle(rates.ours).toFixed(0),
        "bare p50/p99": middle(rates.theirs).toFixed(0),
        "ratio p50": (middle(rates.ours) / middle(rates.theirs)).toFixed(2),
      },
      {
        measured: "the unavoidable steps of updates: parsed, stored a chunk at a time, updates/s",
        "holdfast p50/p99": middle(rates.least).toFixed(0),
        "bare p50/p99": middle(rates.theirs).toFixed(0),
        "ratio p50": (middle(rates.least) / middle(rates.theirs)).toFixed(2),
      },
      {
        measured: "the gateway's CPU for an update, µs",
        "holdfast p50/p99": ((1000 * spent.updates) / (ROUNDS * updates)).toFixed(1),
      },
      {
        measured: `gateway's memory at its peak, MB: before; after ${ROUNDS} × ${updates} updates; and ${LARGE} of a MiB; and ${read} read back`,
        "holdfast p50/p99": `${rest} → ${later.join(" → ")}`,
        "ratio p50": (memory.at(-1) / memory[0]).toFixed(2),
      },
    ]),
  );
  await client.acpClose({ params });
} finally {
  bare.end();
  floor.end();
  await client.stop({ body: { runs: "terminate" } });
  while ((await reachGateway(home).catch(() => null)) !== null)
    await new Promise((done) => setTimeout(done, 20));
  await rm(home, { recursive: true, force: true });
}
