// A supervising process that kills itself at one step of its spawns:
//   node victim.mjs <home> <instanceId> <step> <spawns> <ownerLossMs> <script>
// Each spawn stops at the step; the last one to reach it kills the process. The steps are SPAWN_STEPS;
// `random:<share>` kills at that share of the duration of a spawn, by the clock of another thread. With `:cold` there
// is no launcher yet.
import { mkdirSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";
import { Worker } from "node:worker_threads";

const load = (path) => import(new URL(`../../../../dist/${path}`, import.meta.url).href);
const [{ createSupervisor }, { acquireInstanceLock }, { openNativeHost }, { readMachineIdentity }] =
  await Promise.all([
    load("supervisor/supervisor.js"),
    load("home/instance-lock.js"),
    load("anchor/native-host.js"),
    load("home/machine-identity.js"),
  ]);
const { openSqliteStore } = await load("store/sqlite/open.js");
const { openStateDirectory } = await load("store/open-state-directory.js");

const [, , home, instanceId, step, spawns, ownerLossMs, script] = process.argv;
const START = 2;
let armed = false;
let arrived = 0;

/** A spawn that reaches the step never continues. */
async function reached(here) {
  if (!armed || here !== step) return;
  arrived += 1;
  if (arrived === Number(spawns)) process.kill(process.pid, "SIGKILL");
  await new Promise(() => {});
}

const { storePath } = await openStateDirectory(home);
const instanceDir = join(home, "instances", instanceId);
mkdirSync(instanceDir, { recursive: true, mode: 0o700 });
const lock = await acquireInstanceLock(instanceDir);
const machine = await readMachineIdentity(home);
const store = await openSqliteStore({ path: storePath, eventsKept: 1000, busyMs: 5000 });
const host = await openNativeHost({ home, instanceId, instanceDir, incarnation: "victim", machine });

const supervisor = createSupervisor({ home, instanceId, store: mortalStore(), host: mortalHost() });
/** Ten milliseconds are several spawns on a quiet machine. */
let range = 10;
if (!step.endsWith(":cold")) {
  // With a running launcher, the steps follow each other closely.
  await warmUp(1);
  const began = performance.now();
  if (step.startsWith("random")) await warmUp(Number(spawns));
  range = Math.max(range, performance.now() - began);
} else {
  range = 40;
}
watchStart();
const [, share] = /^random:([\d.]+)/.exec(step) ?? [];
const clock = share === undefined ? null : await startClock(Number(share) * range);
armed = true;
clock?.go();
const options = { ownerLossMs: Number(ownerLossMs), graceMs: 100 };
const spawned = Array.from({ length: Number(spawns) }, async () => {
  await supervisor.spawn({ io: "pipe", argv: ["/bin/sh", "-c", script] }, options);
  await reached("running");
});
await Promise.all(spawned);
// Reached only if the clock of the other thread is late.
setInterval(() => lock, 1000);

async function warmUp(count) {
  const runs = Array.from({ length: count }, () => supervisor.spawn({ io: "pipe", argv: ["/bin/true"] }));
  for (const run of await Promise.all(runs)) await run.wait();
}

function mortalStore() {
  return new Proxy(store, {
    get(target, name) {
      if (name === "insertRun")
        return async (...args) => {
          const lease = await target.insertRun(...args);
          await reached(args[3] === undefined ? "inserted" : "committed");
          return lease;
        };
      return bound(target, name);
    },
  });
}

function mortalHost() {
  return new Proxy(host, {
    get(target, name) {
      if (name !== "start") return bound(target, name);
      return async (spec) => {
        // The record of a run without a process is inserted only if no anchor could be started.
        if (armed && step === "inserted") throw new Error("no anchor is started at this step");
        const link = await target.start(spec);
        // The answer to START is never received.
        if (armed && step === "asked") await new Promise(() => {});
        await reached("welcomed");
        return mortalLink(link);
      };
    },
  });
}

function mortalLink(link) {
  let deaf = false;
  return new Proxy(link, {
    get(target, name) {
      if (name === "go")
        return () => {
          target.go();
          deaf = armed && step === "gone";
          void reached("gone");
        };
      if (name === "listen")
        return (listener) =>
          target.listen((event) => {
            deaf ||= armed && event.type === "started" && step === "heard";
            if (!deaf) listener(event);
            else if (event.type === "started") void reached("heard");
          });
      return bound(target, name);
    },
  });
}

function bound(target, name) {
  const value = target[name];
  return typeof value === "function" ? value.bind(target) : value;
}

/** The host sends START itself: it is intercepted at the socket, and the step is reached when the kernel has it. */
function watchStart() {
  // oxlint-disable-next-line typescript/unbound-method -- called with its socket below
  const { write } = Socket.prototype;
  Socket.prototype.write = function (chunk, ...rest) {
    if (Buffer.isBuffer(chunk) && chunk[4] === START)
      return write.call(this, chunk, () => void reached("asked"));
    return write.call(this, chunk, ...rest);
  };
}

async function startClock(ms) {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  const code = `
    const { workerData, parentPort } = require("node:worker_threads");
    parentPort.postMessage("ready");
    Atomics.wait(workerData.cell, 0, 0);
    Atomics.wait(workerData.cell, 0, 1, workerData.ms);
    process.kill(process.pid, "SIGKILL");`;
  const worker = new Worker(code, { eval: true, workerData: { cell, ms } });
  await new Promise((resolve) => worker.once("message", resolve));
  const go = () => {
    Atomics.store(cell, 0, 1);
    Atomics.notify(cell, 0);
  };
  return { go };
}
