// Cost of reconciling 10,000 open records: healthy ones of another owner, dead ones to be ended, live ones with
// verified processes; compared with reading /proc for each pid, which proves less.
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { DatabaseSync } from "@photostructure/sqlite";
import { openSupervisor } from "../dist/index.js";
import { findAnchorBinary } from "../dist/anchor/binary.js";
import { inspectProcesses } from "../dist/anchor/inspect/processes.js";
import { openNativeObserver } from "../dist/anchor/native-observer.js";
import { systemClock } from "../dist/async/clock.js";
import { acquireInstanceLock } from "../dist/home/instance-lock.js";
import { readMachineIdentity } from "../dist/home/machine-identity.js";
import { stateIdOf } from "../dist/home/state-id.js";
import { openSqliteStore } from "../dist/store/sqlite/open.js";
import { buildReconcileContext, classifyRecords } from "../dist/supervisor/reconcile/reconcile.js";
import { runOf } from "./samples.mjs";

const count = Number(process.argv[2] ?? 10_000);
const rows = [];
const note = (measured, ms, bareUs) =>
  rows.push({
    measured,
    "µs per record": ((ms * 1000) / count).toFixed(1),
    "against reading /proc": `${((ms * 1000) / count / bareUs).toFixed(2)} ×`,
  });

const self = await identityOf(process.pid);

/** Pids that no process has: above the kernel's maximum. */
const dead = (n) => ({ pid: 4_000_000 + (n % 100_000), startTime: 1, uniqueId: String(n + 1) });
async function identityOf(pid) {
  const child = promisify(execFile)(findAnchorBinary(), ["inspect"]);
  child.child.stdin.end(`${pid}\n`);
  const { pid: number, startTime, uniqueId } = JSON.parse((await child).stdout);
  return { pid: number, startTime, uniqueId };
}

async function fill(store, here, owner, leaseMs, identity) {
  for (let n = 0; n < count; n++) {
    const run = {
      ...runOf(String(n).padStart(8, "0"), owner),
      ...here,
      leaseId: `lease_${n}`,
      createdAt: Date.now(),
    };
    const lease = await store.insertRun(run, leaseMs);
    const who = identity(n);
    const boundary = { cgroup: null, cgroupInode: null, note: null };
    await store.saveRun(lease, {
      to: "gated",
      anchor: who,
      root: who,
      processGroupId: who.pid,
      boundary,
      tier: "bench",
    });
    await store.saveRun(lease, { to: "running", at: Date.now() });
  }
}

async function timed(work) {
  const began = performance.now();
  const result = await work();
  return { ms: performance.now() - began, result };
}

async function readProc(identity) {
  const { ms } = await timed(async () => {
    for (let n = 0; n < count; n++) {
      const text = await readFile(`/proc/${identity(n).pid}/stat`, "utf8").catch(() => "");
      text.slice(text.lastIndexOf(")") + 2).split(" ");
    }
  });
  return (ms * 1000) / count;
}

/** Reads and decides as `reconcile` does, and changes nothing. */
async function decideOnly(store, home, here) {
  const observer = openNativeObserver(home, here, findAnchorBinary());
  const records = await store.listUnattendedRuns("bench", here);
  const context = await buildReconcileContext(
    observer,
    { instanceId: "bench", stateId: here.stateId },
    await store.now(),
  );
  const classified = await classifyRecords(observer, systemClock, context, records);
  await observer[Symbol.asyncDispose]();
  return classified.map(({ decision }) => decision);
}

/**
 * The floor: reads the records, verifies their processes, and executes the statements of the decision, in one transaction
 * that is rolled back.
 */
async function floorOf(path, identity, set, events) {
  const processes = Array.from({ length: count }, (_, n) => [identity(n), identity(n)]).flat();
  const verified = await timed(() => inspectProcesses(findAnchorBinary(), processes, { brief: true }));
  const db = new DatabaseSync(path);
  db.exec("begin immediate");
  const statements = await timed(async () => {
    const select = db.prepare("select run_id, runs.* from runs where state <> 'exited'");
    select.setReturnArrays(true);
    const update = db.prepare(
      `update runs set owner_instance_id = 'bench', lease_epoch = 2, lease_expires_at = 1, ${set} where run_id = ? and lease_epoch = 1 and state <> 'exited'`,
    );
    const insert = db.prepare(
      "insert into run_events (run_id, type, at, root_pid, descendants, data) values (?, 'reconcile', 1, 1, 0, ?)",
    );
    const data = JSON.stringify({
      row: "anchor-alive",
      action: "adopt",
      by: "bench",
      from: "other",
      epoch: 2,
    });
    for (const [runId] of select.all()) {
      update.run(runId);
      for (let n = 0; n < events; n++) insert.run(runId, data);
    }
  });
  db.exec("rollback");
  db.close();
  return verified.ms + statements.ms;
}

/** Each kind in its own state directory, with a live instance `other` and a dead one `gone`. */
async function measure(measured, owner, leaseMs, identity, bareUs, check, floor = null) {
  const home = await mkdtemp(join(tmpdir(), "hf-bench-"));
  const instances = join(home, "instances");
  for (const name of ["other", "gone"]) await mkdir(join(instances, name), { recursive: true, mode: 0o700 });
  const lock = await acquireInstanceLock(join(instances, "other"));
  const store = await openSqliteStore({ path: join(home, "store.sqlite") });
  const here = { ...(await readMachineIdentity(home)), stateId: await stateIdOf(home) };
  await fill(store, here, owner, leaseMs, identity);
  const floorMs = floor && (await floorOf(join(home, "store.sqlite"), identity, floor.set, floor.events));
  const supervisor = await openSupervisor({ home, instanceId: "bench", onProblem: () => {} });
  const decided = await timed(() => decideOnly(store, home, here));
  check(decided.result);
  const first = await timed(() => supervisor.reconcile());
  check(first.result.decisions);
  note(measured, first.ms, bareUs);
  note("… of it, reading and deciding", decided.ms, bareUs);
  if (floorMs !== null) note("… floor: reading, verifying and the statements alone", floorMs, bareUs);
  const second = await timed(() => supervisor.reconcile());
  note("… looked at again", second.ms, bareUs);
  await supervisor.close({ leaveRuns: true });
  await lock[Symbol.asyncDispose]();
  await store[Symbol.asyncDispose]();
  await rm(home, { recursive: true, force: true });
}

const all = (action) => (decisions) => {
  const found = decisions.filter((each) => each.action === action).length;
  if (found !== count) throw new Error(`${found} of ${count} were to ${action}`);
};
const bareDead = await readProc(dead);
const bareLive = await readProc(() => self);

await measure(`${count} with a healthy lease of another owner`, "other", 3_600_000, dead, bareDead, () => {});
await measure(
  `${count} expired, their owner alive: left alone`,
  "other",
  -1,
  () => self,
  bareLive,
  all("leave"),
);
await measure(
  `${count} of a stuck owner, each anchor and root verified alive`,
  "other",
  -400_000,
  () => self,
  bareLive,
  all("adopt"),
  { set: "updated_at = 1", events: 1 },
);
await measure(
  `${count} of a dead owner: verified gone, taken over, ended on record`,
  "gone",
  -1,
  dead,
  bareDead,
  all("lose"),
  {
    set: "updated_at = 1, state = 'exited', ended_at = 1, exit_reason = 'lost', exit_actor = '', exit_source = 'none', emptiness = 'unproven'",
    events: 2,
  },
);
console.log(JSON.stringify(rows));
