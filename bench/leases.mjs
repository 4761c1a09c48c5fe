// Heartbeats and steals: one statement renews all of a supervisor's leases; a steal is one compare-and-swap.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqliteStore } from "../dist/store/sqlite/open.js";

const rows = [];
const policy = {
  graceMs: 0,
  settleMs: 0,
  drainMs: 0,
  killReportMs: 0,
  ownerLossMs: 0,
  onEscape: "fail",
  onOrphan: "adopt",
};
const base = {
  leaseId: "",
  sessionKey: null,
  backendId: null,
  agentId: null,
  labels: {},
  kind: "task",
  io: "pipe",
  command: "sleep 1",
  commandHash: "",
  cwd: "/",
  hostId: "h",
  bootId: "b",
  pidNamespace: "n",
  anchorPath: "",
  leaseEpoch: 1,
  deadlines: { overallMs: null, noOutputMs: null },
  policy,
  createdAt: 0,
  imported: null,
};

const home = await mkdtemp(join(tmpdir(), "hf-bench-"));
const store = await openSqliteStore({ path: join(home, "store.sqlite") });

async function insert(owner, count, leaseMs) {
  const leases = [];
  for (let n = 0; n < count; n++) {
    const run = { ...base, runId: `run_${owner}${n}`, originInstanceId: owner, ownerInstanceId: owner };
    leases.push(await store.insertRun(run, leaseMs));
  }
  return leases;
}

function median(values) {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)];
}

const single = {};
for (const count of [1, 100, 10_000]) {
  await insert(`o${count}x`, count, 30_000);
  const times = [];
  for (let round = 0; round < 30; round++) {
    const began = performance.now();
    if ((await store.renewLeases(`o${count}x`, 30_000)) !== count) throw new Error("not all were renewed");
    times.push(performance.now() - began);
  }
  const ms = median(times);
  single[count] = ms;
  rows.push({
    measured: `heartbeat of ${count} leases, one statement`,
    ms: ms.toFixed(3),
    "µs per lease": ((ms * 1000) / count).toFixed(2),
    "against as many single ones": `${(ms / (count * single[1])).toFixed(4)} ×`,
  });
}

const stolen = await insert("victim", 5_000, -1);
const event = (runId, epoch) => ({
  runId,
  at: 0,
  rootPid: null,
  descendants: 0,
  type: "reconcile",
  data: { row: "anchor-alive", action: "adopt", why: "bench", by: "thief", from: "victim", epoch },
});
const began = performance.now();
for (const { runId, ownerInstanceId, epoch } of stolen) {
  const from = { ownerInstanceId, epoch };
  const claim = { runId, from, ownerInstanceId: "thief", epoch: epoch + 1, leaseMs: 30_000, expiredForMs: 0 };
  if ((await store.claimLease(claim, [event(runId, epoch + 1)])) === null) throw new Error("not stolen");
}
const ms = performance.now() - began;
rows.push({
  measured: `${stolen.length} steals, each with its event: ${Math.round((stolen.length / ms) * 1000)} per second`,
  ms: ms.toFixed(0),
  "µs per lease": ((ms * 1000) / stolen.length).toFixed(1),
  "against as many single ones": `${(ms / (stolen.length * single[1])).toFixed(2)} ×`,
});

await store[Symbol.asyncDispose]();
await rm(home, { recursive: true, force: true });
console.log(JSON.stringify(rows));
