// The store on SQLite and on PostgreSQL, alternating, so that noise affects both.
//
// Usage: store.mjs [postgres://…]; without an address it starts its own durable server on a local socket.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSqliteStore } from "../dist/store/sqlite/open.js";
import { openPostgresStore } from "../dist/store/postgres/open.js";
import { EventWatch } from "../dist/store/postgres/listen-notify.js";
import { quantile } from "./measure.mjs";
import { startPostgres } from "./postgres-server.mjs";
import { claimOf, eventOf, runOf } from "./samples.mjs";

const directory = await mkdtemp(join(tmpdir(), "hf-bench-"));
const server = process.argv[2] === undefined ? await startPostgres() : null;
const url = process.argv[2] ?? server.url;
const schema = `bench_${process.pid}`;
const open = {
  sqlite: () => openSqliteStore({ path: join(directory, "store.sqlite") }),
  postgres: () => openPostgresStore({ url, schema, name: "bench" }),
};
const stores = { sqlite: await open.sqlite(), postgres: await open.postgres() };
const rows = [];

await compare("insert a run", 300, (store, n) => store.insertRun(runOf(`i${n}`, "inserter"), 30_000));
await compare("a step with its event", 300, (store, n) =>
  store.saveRun(leaseOf(`run_i${n}`, "inserter"), { to: "running", at: n }, [eventOf(`run_i${n}`)]),
);
for (const count of [1, 100, 10_000]) {
  for (const store of Object.values(stores)) await fill(store, `o${count}`, count, 30_000);
  await compare(`renew ${count} leases`, count > 1_000 ? 10 : 50, async (store) => {
    if ((await store.renewLeases(`o${count}`, 30_000)) !== count) throw new Error("not all were renewed");
  });
}
for (const store of Object.values(stores)) await fill(store, "victim", 2_000, -1);
await throughput("steals, each with its event, 32 at a time", 2_000, async (store, n) => {
  if ((await store.acquireLease(claimOf(`run_victim${n}`, "victim"), [eventOf("x")])) === null)
    throw new Error("not stolen");
});
await throughput("events, one per call, 32 at a time", 2_000, (store, n) =>
  store.appendEvents([eventOf(`e${n}`)]),
);
await latency();

for (const store of Object.values(stores)) await store[Symbol.asyncDispose]();
await server?.stop();
await rm(directory, { recursive: true, force: true });
console.log(JSON.stringify(rows));

function leaseOf(runId, ownerInstanceId) {
  return { runId, ownerInstanceId, epoch: 1 };
}

/** Inserts runs of one owner, a few at a time. */
async function fill(store, owner, count, leaseMs) {
  await atOnce(count, (n) => store.insertRun(runOf(`${owner}${n}`, owner), leaseMs));
}

async function atOnce(count, work) {
  let next = 0;
  const worker = async () => {
    for (let n = next++; n < count; n = next++) await work(n);
  };
  await Promise.all(Array.from({ length: 32 }, worker));
}

async function compare(measured, count, call) {
  const times = { sqlite: [], postgres: [] };
  for (let n = 0; n < count; n++)
    for (const [name, store] of Object.entries(stores)) {
      const began = performance.now();
      await call(store, n);
      times[name].push(performance.now() - began);
    }
  report(measured, times, "ms");
}

async function throughput(measured, count, call) {
  const rate = {};
  for (const [name, store] of Object.entries(stores)) {
    const began = performance.now();
    await atOnce(count, (n) => call(store, n));
    rate[name] = (count / (performance.now() - began)) * 1000;
  }
  rows.push({
    measured: `${measured}, per second`,
    "SQLite p50/p99": rate.sqlite.toFixed(0),
    "PostgreSQL p50/p99": rate.postgres.toFixed(0),
    ratio: (rate.postgres / rate.sqlite).toFixed(2),
  });
}

/** The time from the append until another store has read the event: by notification, or (SQLite) by polling. */
async function latency() {
  const times = { sqlite: [], postgres: [] };
  for (const name of Object.keys(times)) {
    const reader = await open[name]();
    let [{ seq: last } = { seq: 0 }] = await reader.listEvents({ newestFirst: true, limit: 1 });
    let wake = () => {};
    const woken = () => new Promise((resolve) => (wake = resolve));
    const watch = name === "postgres" ? new EventWatch({ url, schema, name: "bench" }, () => wake()) : null;
    const look = watch === null ? () => new Promise((resolve) => setTimeout(resolve, 1)) : woken;
    if (watch !== null) await woken();
    for (let n = 0; n < 100; n++) {
      const began = performance.now();
      let next = look();
      await stores[name].appendEvents([eventOf(`latency${n}`)]);
      for (let page = []; page.length === 0; last = page.at(-1)?.seq ?? last) {
        await next;
        next = look();
        page = await reader.listEvents({ after: last });
      }
      times[name].push(performance.now() - began);
    }
    await watch?.[Symbol.asyncDispose]();
    await reader[Symbol.asyncDispose]();
  }
  report("an event, seen by another store (SQLite: one that polls every millisecond)", times);
}

function report(measured, times) {
  const cell = (values) => `${quantile(values, 0.5).toFixed(2)} / ${quantile(values, 0.99).toFixed(2)}`;
  rows.push({
    measured: `${measured}, ms`,
    "SQLite p50/p99": cell(times.sqlite),
    "PostgreSQL p50/p99": cell(times.postgres),
    ratio: (quantile(times.postgres, 0.5) / quantile(times.sqlite, 0.5)).toFixed(2),
  });
}
