// What the promises of a run cost at least on this machine, measured beside bare child_process.spawn and Holdfast: programs
// that keep the promises and do nothing else (bench/support/least-run.mjs). The steps are added one by one. Then the same
// behind a server without checks, in a process of 1 GB, and for KILL.
//
// Usage: node bench/floor.mjs [samples]
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { inTurns, quantile, withSupervisor } from "./measure.mjs";
import { compileKeeper, Keeper, openRecords } from "./support/least-run.mjs";

const count = Number(process.argv[2] ?? 200);
const CLIENTS = 5;
const KILLED = 1_000;

const directory = await mkdtemp(join(tmpdir(), "hf-"));
const program = compileKeeper(directory);
const records = openRecords(directory);
const keepers = [new Keeper(program, null), new Keeper(program, directory)];
const [keeper, filing] = keepers;
const rows = [];

const bare = () =>
  new Promise((resolve, reject) => {
    const child = spawn("/bin/true", [], { stdio: ["pipe", "pipe", "pipe"] });
    child.on("error", reject);
    child.on("close", resolve);
  });
const durable = () => filing.run(records, { sync: true });

try {
  await withSupervisor(async (supervisor) => {
    const ours = async () => (await supervisor.spawn({ io: "pipe", argv: ["/bin/true"] })).wait();
    await steps(ours);
  });
  await behindServer();
  await kills();
  await inLargeProcess();
  console.log(JSON.stringify(rows));
} finally {
  for (const each of [...keepers, records]) each.close();
  await rm(directory, { recursive: true, force: true, maxRetries: 5 });
}

function add(measured, times, bareTimes) {
  rows.push({
    measured,
    "ms p50/p99": `${quantile(times, 0.5).toFixed(2)} / ${quantile(times, 0.99).toFixed(2)}`,
    ...(bareTimes === undefined
      ? {}
      : { "ratio to bare spawn, p50": (quantile(times, 0.5) / quantile(bareTimes, 0.5)).toFixed(2) }),
  });
}

async function steps(ours) {
  const [spawned, kept, filed, recorded, synced, held, alone] = await inTurns(
    count,
    bare,
    () => keeper.run(null),
    () => filing.run(null),
    () => filing.run(records),
    durable,
    ours,
    () => records.sync(),
  );
  add("bare spawn", spawned, spawned);
  add("command of a prepared process, reported by its keeper", kept, spawned);
  add("… and an exit file", filed, spawned);
  add("… and a committed record before and after", recorded, spawned);
  add("… and the end synced: the least durable run", synced, spawned);
  add("Holdfast, library", held, spawned);
  add("a sync with nothing to write", alone);
}

async function behindServer() {
  const socketPath = join(directory, "least.sock");
  const script = fileURLToPath(new URL("support/least-server.mjs", import.meta.url));
  const args = [script, socketPath, program, directory, String(CLIENTS)];
  const server = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const agent = new Agent({ keepAlive: true });
  const ask = async (path) => {
    const asking = request({ socketPath, path, method: "POST", agent }).end();
    const [response] = await once(asking, "response");
    return JSON.parse(await text(response));
  };
  try {
    await once(server.stdout, "data");
    const [spawned, served, kept] = await inTurns(
      count,
      bare,
      () => ask("/bare"),
      () => ask("/durable"),
    );
    add("server without checks that spawns", served, spawned);
    add("server without checks, the least durable run", kept, spawned);
    for (const path of ["/bare", "/durable"]) {
      const before = await ask("/cpu");
      for (let i = 0; i < count; i++) await ask(path);
      const ms = ((await ask("/cpu")).ms - before.ms) / count;
      rows.push({ measured: `CPU of that server, ${path}`, "ms p50/p99": ms.toFixed(2) });
    }
    const several = { bare, spawns: () => ask("/bare"), durable: () => ask("/durable") };
    const rates = {};
    for (const [name, call] of Object.entries(several)) rates[name] = await perSecond(call);
    for (const [name, what] of Object.entries({ spawns: "that spawns", durable: "the least durable run" }))
      rows.push({
        measured: `${CLIENTS} clients of a server ${what}`,
        "runs/s": rates[name].toFixed(0),
        "ratio to bare spawn, p50": (rates[name] / rates.bare).toFixed(2),
      });
  } finally {
    agent.destroy();
    server.kill();
  }
}

async function perSecond(call) {
  let left = 5 * count;
  const began = performance.now();
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      while (left-- > 0) await call();
    }),
  );
  return (5 * count * 1_000) / (performance.now() - began);
}

/** KILL and the wait of a program that has only these children, and knows their group. */
async function kills() {
  const one = [];
  for (let i = 0; i < Math.ceil(count / 4); i++) {
    const child = spawn("/bin/sleep", ["1000"], { stdio: "ignore" });
    await once(child, "spawn");
    one.push(await killed(child, () => child.kill("SIGKILL")));
  }
  add("kill of 1 process, its end recorded and synced", one);
  const many = [];
  const loop = `i=1; while [ $i -lt ${KILLED} ]; do sleep 1000 & i=$((i+1)); done; echo ready; exec sleep 1000`;
  for (let i = 0; i < 5; i++) {
    const child = spawn("/bin/sh", ["-c", loop], { detached: true, stdio: ["ignore", "pipe", "inherit"] });
    await once(child.stdout, "data");
    many.push((await killed(child, () => process.kill(-Number(child.pid), "SIGKILL"))) / KILLED);
  }
  rows.push({
    measured: `kill of ${KILLED} processes as a group, per process`,
    "ms p50/p99": quantile(many, 0.5).toFixed(3),
  });
}

/** Until the process, and all that hold its output, are gone. */
async function killed(child, kill) {
  const id = records.begin(child.pid);
  await records.sync();
  const began = performance.now();
  kill();
  await once(child, "close");
  records.end(id);
  await records.sync();
  return performance.now() - began;
}

async function inLargeProcess() {
  const ballast = Buffer.alloc(1024 * 1024 * 1024, 1);
  const [spawned, kept] = await inTurns(Math.ceil(count / 10), bare, durable);
  add(`least durable run, ${ballast.length >> 20} MB resident`, kept, spawned);
}
