// A supervising process that a test commands: each line on stdin is an order, each line on stdout an answer.
//   node supervisor-process.mjs <dist>
// With a step to stop at (see SUPERVISOR_STEPS), it reports the step and stops itself there, before its next
// instruction; the test then kills or continues it. With several runs, the first ones at the step wait for the last.
import { mkdirSync, writeSync } from "node:fs";
import { Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const load = (path) => import(pathToFileURL(join(process.argv[2], path)).href);
const { createSupervisor } = await load("supervisor/supervisor.js");
const { acquireInstanceLock } = await load("home/instance-lock.js");
const { openNativeHost } = await load("anchor/native-host.js");
const { readMachineIdentity } = await load("home/machine-identity.js");
const { openStateDirectory } = await load("store/open-state-directory.js");
const { openStore } = await load("store/open.js");

/** The type of the frame that requests an anchor from a launcher. */
const START = 2;
const say = (what, facts = {}) => writeSync(1, `${JSON.stringify({ say: what, ...facts })}\n`);
const runs = new Map();
/** The step to stop at; null: none. `awaited`: how many runs must reach it. */
let stopAt = null;
let awaited = 0;
let release;
let released;
let settleMs = null;
let supervisor;
let closed = false;

/** Undefined: continue at once; otherwise when the promise resolves. */
function reached(step) {
  if (step === undefined || step !== stopAt) return undefined;
  awaited -= 1;
  if (awaited > 0) return released;
  stopAt = null;
  say("at", { step });
  process.kill(process.pid, "SIGSTOP");
  release();
  return undefined;
}

const orders = {
  async open({ home, instanceId, url, settle }) {
    settleMs = settle;
    if (url !== null) process.env.HOLDFAST_DATABASE_URL = url;
    const { storePath } = await openStateDirectory(home);
    const instanceDir = join(home, "instances", instanceId);
    mkdirSync(instanceDir, { recursive: true, mode: 0o700 });
    const lock = await acquireInstanceLock(instanceDir);
    const machine = await readMachineIdentity(home);
    const store = await openStore(storePath, instanceId);
    const host = await openNativeHost({ home, instanceId, instanceDir, incarnation: "keeper", machine });
    supervisor = createSupervisor({
      home,
      instanceId,
      store: steppedStore(store),
      host: steppedHost(host),
      onProblem: ({ runId, message, cause }) =>
        say("problem", { runId, message, code: cause?.code ?? null, heldBy: cause?.heldBy ?? null }),
      onClosed: () => lock[Symbol.asyncDispose](),
    });
    say("opened");
  },
  stopAt({ step, runs: count }) {
    stopAt = step;
    awaited = count;
    released = new Promise((resolve) => (release = resolve));
    say("armed");
  },
  async spawn({ input, options }) {
    const run = await supervisor.spawn(input, options);
    keep(run);
    await reached("running");
    say("spawned", { runId: run.runId, record: await supervisor.getRun(run.runId) });
  },
  async reconcile({ scope }) {
    const { decisions, runs: taken } = await supervisor.reconcile(scope);
    for (const run of taken) keep(run);
    say("reconciled", { decisions, runIds: taken.map(({ runId }) => runId) });
  },
  async cancel({ runId, options }) {
    await runs.get(runId).cancel(options);
  },
  async adopt({ runId, options }) {
    await supervisor.adoptRun(runId, options);
    say("adopted");
  },
  async adoptProcess({ pid }) {
    const { record, warnings } = await supervisor.adoptProcess(pid);
    keep(supervisor.run(record.runId));
    say("left", { record, warnings });
  },
  async write({ runId, data }) {
    await runs.get(runId).write(data);
    say("written");
  },
  resize({ runId, size }) {
    runs.get(runId).resize(size);
    say("resized");
  },
  async close({ leaveRuns = false }) {
    await supervisor.close({ leaveRuns });
    closed = true;
    say("closed");
  },
};

function keep(run) {
  runs.set(run.runId, run);
  void pass(run);
  void run.wait().then(
    (record) => say("ended", { runId: run.runId, record }),
    (error) => say("rejected", { runId: run.runId, code: error.code, message: error.message }),
  );
}

async function pass(run) {
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  for await (const { stream, bytes } of run.follow())
    say("output", { runId: run.runId, text: decoders[stream].decode(bytes, { stream: true }) });
}

function steppedStore(store) {
  return wrapped(store, {
    insertRun: async (...args) => {
      const lease = await store.insertRun(...args);
      await reached(args[3] === undefined ? "inserted" : "committed");
      return lease;
    },
    finalizeRun: async (...args) => {
      await reached("end-saving");
      const record = await store.finalizeRun(...args);
      await reached("end-saved");
      return record;
    },
    saveRun: async (lease, change, ...rest) => {
      if (change.to === "service") await reached("adopt-saving");
      const saved = await store.saveRun(lease, change, ...rest);
      // The record of an adoption is inserted before its run is attached.
      if (change.to === "gated") await reached("committed");
      if (change.to === "service") await reached("adopt-saved");
      return saved;
    },
    acquireLease: async (...args) => {
      await reached("stealing");
      const lease = await store.acquireLease(...args);
      await reached("stolen");
      return lease;
    },
  });
}

function steppedHost(host) {
  return wrapped(host, {
    start: async (spec) => {
      // The record of a run without a process is inserted only if no anchor could be started.
      if (stopAt === "inserted") throw new Error("no anchor is started at this step");
      const policy = settleMs === null ? spec.policy : { ...spec.policy, settleMs };
      const link = await host.start({ ...spec, policy });
      // The answer to START is held back.
      if (stopAt === "asked") await released;
      await reached("welcomed");
      return steppedLink(link);
    },
    attach: async (run, epoch) => {
      const link = await host.attach(run, epoch);
      if (epoch > 0) await reached("attached");
      return link === null ? null : steppedLink(link);
    },
    listInstances: async () => {
      const found = await host.listInstances();
      await reached("looking");
      return found;
    },
    reap: async (request) => {
      await reached("reaping");
      const result = await host.reap(request);
      await reached("reaped");
      return result;
    },
  });
}

const STEP_OF_EVENT = {
  status: "adopt-heard",
  started: "heard",
  stopping: "stop-heard",
  leader: "leader-heard",
  exited: "end-heard",
};

/** Events that arrive while the run waits at a step are delivered when it continues, in order. */
function steppedLink(link) {
  const delayed = [];
  let deliver = null;
  let holding = false;
  const hold = (pause) => {
    if (pause === undefined) return;
    holding = true;
    void pause.then(() => {
      holding = false;
      for (const event of delayed.splice(0)) deliver(event);
    });
  };
  return wrapped(link, {
    go: () => {
      link.go();
      hold(reached("gone"));
    },
    stop: (stop) => {
      const send = () => {
        link.stop(stop);
        hold(reached("stop-asked"));
      };
      const pause = reached("stop-asking");
      if (pause === undefined) send();
      else void pause.then(send);
    },
    setPolicy: (change) => {
      link.setPolicy(change);
      hold(reached("adopt-asked"));
    },
    listen: (listener) => {
      deliver = (event) => {
        if (!holding) hold(reached(STEP_OF_EVENT[event.type]));
        if (holding) delayed.push(event);
        else listener(event);
      };
      link.listen((event) => deliver(event));
    },
  });
}

function wrapped(target, changed) {
  return new Proxy(target, {
    get(_, name) {
      if (Object.hasOwn(changed, name)) return changed[name];
      const value = target[name];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** The host sends START itself: it is intercepted at the socket, and the step is reached when the kernel has it. */
// oxlint-disable-next-line typescript/unbound-method -- called with its socket below
const { write } = Socket.prototype;
Socket.prototype.write = function (chunk, ...rest) {
  if (Buffer.isBuffer(chunk) && chunk[4] === START)
    return write.call(this, chunk, () => void reached("asked"));
  return write.call(this, chunk, ...rest);
};

async function obey(order, given) {
  try {
    await orders[order](given);
  } catch (error) {
    say("failed", { order, code: error.code ?? null, message: error.message });
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { order, ...given } = JSON.parse(line);
  // Not awaited: other orders may follow while one is being carried out.
  void obey(order, given);
}
// The test has ended. Without an order to close, this counts as a crash.
if (!closed) process.exit(3);
