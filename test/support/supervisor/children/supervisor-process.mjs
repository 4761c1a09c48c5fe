// A supervising process at the word of a test: every line on stdin is an order, every line on stdout an answer.
//   node keeper.mjs <built>
// Told to stop at a step (see ../steps.ts), it says so and stops itself there, before its next instruction. Whoever
// gave the order decides whether it dies there or goes on. With several runs on their way to it, those who get there
// first wait for the last.
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
const { openStore } = await load("store/open.js");
const { openStateDirectory } = await load("store/open-state-directory.js");

/** The type of the frame that asks a launcher for an anchor. */
const START = 2;
const say = (what, facts = {}) => writeSync(1, `${JSON.stringify({ say: what, ...facts })}\n`);
const runs = new Map();
/** The step to stop at, with how many; null: none, or no more. */
let stopAt = null;
let awaited = 0;
let release;
let released;
let settleMs = null;
let supervisor;
let farewell = false;

/** Undefined: go on at once. Otherwise when it resolves. */
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
    farewell = true;
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
      await reached("inserted");
      return lease;
    },
    saveRun: async (lease, change, ...rest) => {
      if (change.to === "exited") await reached("end-saving");
      if (change.to === "service") await reached("adopt-saving");
      const saved = await store.saveRun(lease, change, ...rest);
      if (change.to === "gated") await reached("committed");
      if (change.to === "exited") await reached("end-saved");
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
      const policy = settleMs === null ? spec.policy : { ...spec.policy, settleMs };
      const link = await host.start({ ...spec, policy });
      // START was seen on its way out; its answer is not for us yet.
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

const HEARD = {
  status: "adopt-heard",
  started: "heard",
  stopping: "stop-heard",
  leader: "leader-heard",
  exited: "end-heard",
};

/** What is heard while the run waits at a step is heard when it goes on, in order. */
function steppedLink(link) {
  const unheard = [];
  let hear = null;
  let holding = false;
  const hold = (pause) => {
    if (pause === undefined) return;
    holding = true;
    void pause.then(() => {
      holding = false;
      for (const event of unheard.splice(0)) hear(event);
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
      hear = (event) => {
        if (!holding) hold(reached(HEARD[event.type]));
        if (holding) unheard.push(event);
        else listener(event);
      };
      link.listen((event) => hear(event));
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

/** START is inside the host: it is seen on its way out, and acted on when the kernel has it. */
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
  // Not awaited: while one order is being carried out, or hangs, others may follow.
  void obey(order, given);
}
// Nobody gives orders any more. Without a farewell that is a crash.
if (!farewell) process.exit(3);
