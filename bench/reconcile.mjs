// What a look at 10,000 open records costs: healthy ones of another owner, dead ones to be ended on record, live ones
// whose processes are verified; against reading /proc for each number, which proves less.
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { openSupervisor } from "../dist/index.js";
import { acquireInstanceLock } from "../dist/store/instance-lock.js";
import { readMachineIdentity } from "../dist/store/machine.js";
import { openSqliteStore } from "../dist/store/sqlite/open.js";

const count = Number(process.argv[2] ?? 10_000);
const rows = [];
const note = (measured, ms, per, bareUs) =>
  rows.push({
    measured,
    "µs per record": ((ms * 1000) / per).toFixed(1),
    "against reading /proc": bareUs === null ? "" : `${((ms * 1000) / per / bareUs).toFixed(2)} ×`,
  });

const home = await mkdtemp(join(tmpdir(), "hf-bench-"));
const instances = join(home, "instances");
await mkdir(join(instances, "other"), { recursive: true, mode: 0o700 });
await mkdir(join(instances, "gone", "runs"), { recursive: true, mode: 0o700 });
const machine = await readMachineIdentity(home);
const store = await openSqliteStore({ path: join(home, "store.sqlite") });

/** Numbers that nobody has: above what the kernel gives. */
const dead = (n) => ({ pid: 4_000_000 + (n % 100_000), startTime: 1, uniqueId: String(n + 1) });
const self = await identityOf(process.pid);

async function identityOf(pid) {
  const anchor = new URL("../build/anchor", import.meta.url).pathname;
  const child = promisify(execFile)(anchor, ["inspect"]);
  child.child.stdin.end(`${pid}\n`);
  const { pid: number, startTime, uniqueId } = JSON.parse((await child).stdout);
  return { pid: number, startTime, uniqueId };
}

async function fill(prefix, owner, leaseMs, identity) {
  for (let n = 0; n < count; n++) {
    const run = {
      runId: `run_${prefix}${String(n).padStart(8, "0")}`,
      leaseId: `lease_${n}`,
      sessionKey: null,
      backendId: null,
      agentId: null,
      labels: {},
      kind: "task",
      io: "pipe",
      command: "sleep 1",
      commandHash: "",
      cwd: "/",
      ...machine,
      anchorPath: "",
      originInstanceId: owner,
      ownerInstanceId: owner,
      leaseEpoch: 1,
      deadlines: { overallMs: null, noOutputMs: null },
      policy: {
        graceMs: 5000,
        settleMs: 100,
        drainMs: 2000,
        killReportMs: 2000,
        ownerLossMs: 120_000,
        onEscape: "fail",
        onOrphan: "adopt",
      },
      createdAt: Date.now(),
      imported: null,
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

const lock = await acquireInstanceLock(join(instances, "other"));
const supervisor = await openSupervisor({ home, instanceId: "bench", onProblem: () => {} });
const bareDead = await readProc(dead);
const bareLive = await readProc(() => self);

await fill("a", "other", 3_600_000, dead);
let pass = await timed(() => supervisor.reconcile());
note(`${count} healthy leases of another owner`, pass.ms, count, bareDead);

// An expired lease of a live owner: looked at only when it has been so for ten leases; then its anchor is verified.
await fill("b", "other", -400_000, () => self);
pass = await timed(() => supervisor.reconcile());
note(
  `${count} of a stuck owner, each process verified alive (and ${count} healthy)`,
  pass.ms,
  count,
  bareLive,
);

await fill("c", "gone", -1, dead);
pass = await timed(() => supervisor.reconcile());
const ended = pass.result.decisions.filter(({ action }) => action === "lose").length;
if (ended !== count) throw new Error(`${ended} of ${count} were ended`);
note(
  `${count} of a dead owner, taken over and ended on record (beside ${2 * count} others)`,
  pass.ms,
  count,
  bareDead,
);

pass = await timed(() => supervisor.reconcile());
note(`nothing to do, ${2 * count} open records`, pass.ms, 2 * count, bareDead);

await supervisor.close({ leaveRuns: true });
await lock[Symbol.asyncDispose]();
await store[Symbol.asyncDispose]();
await rm(home, { recursive: true, force: true });
console.log(JSON.stringify(rows));
