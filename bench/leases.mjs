// Lease renewals and steals: one statement renews all leases of a supervisor; a steal is one compare-and-swap.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqliteStore } from "../dist/store/sqlite/open.js";
import { claimOf, eventOf, runOf } from "./samples.mjs";

const rows = [];
const home = await mkdtemp(join(tmpdir(), "hf-bench-"));
const store = await openSqliteStore({ path: join(home, "store.sqlite") });

async function insert(owner, count, leaseMs) {
  const leases = [];
  for (let n = 0; n < count; n++) {
    leases.push(await store.insertRun(runOf(`${owner}${n}`, owner), leaseMs));
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
const began = performance.now();
for (const { runId, ownerInstanceId } of stolen) {
  if ((await store.acquireLease(claimOf(runId, ownerInstanceId), [eventOf(runId)])) === null)
    throw new Error("not stolen");
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
