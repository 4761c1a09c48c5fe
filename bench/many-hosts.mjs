// Measures a store with 1, 2, 4 and 8 supervisors: SQLite (one state directory) and PostgreSQL (one each), alternating.
// Then the cost of a lease, a run and an event on a PostgreSQL server, from which docs/reference/sizing.md computes.
//
// Usage: many-hosts.mjs [largest number of supervisors]
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import pg from "pg";
import { defaults, openSupervisor } from "../dist/index.js";
import { EventWatch } from "../dist/store/postgres/listen-notify.js";
import { openPostgresStore } from "../dist/store/postgres/open.js";
import { openSqliteStore } from "../dist/store/sqlite/open.js";
import { measureDatabaseCosts } from "./database-costs.mjs";
import { atOnce, quantile } from "./measure.mjs";
import { startPostgres } from "./postgres-server.mjs";
import { claimOf, eventOf, runOf } from "./samples.mjs";

const LEASES = 10_000;
const STEALS = 2_000;
const SPAWNS = 25;
const EVENTS = 20;
/** A tenth of the real interval: the average wait is half of any interval. */
const POLL_MS = 500;

const most = Number(process.argv[2] ?? 8);
const counts = [1, 2, 4, 8].filter((count) => count <= most);
const directory = await mkdtemp(join(tmpdir(), "hf-bench-"));
const server = await startPostgres();
const behind = new pg.Client(server.url);
await behind.connect();
const rows = [];
let schemas = 0;

for (const count of counts) {
  await spawning(count);
  await withStores(count, stealing).then((results) =>
    report("steals, each with its event, per second", count, results),
  );
  await withStores(count, seeing).then((results) =>
    report("an event, seen by the last of all, ms", count, results),
  );
}
await renewing();
await catchingUp();
rows.push(...(await measureDatabaseCosts({ server, client: behind, leases: LEASES, operations: STEALS })));

await behind.end();
await server.stop();
await rm(directory, { recursive: true, force: true });
console.log(JSON.stringify(rows));

function report(measured, supervisors, { sqlite, postgres }) {
  const digits = postgres > 100 ? 0 : 2;
  rows.push({
    measured,
    supervisors,
    SQLite: sqlite.toFixed(digits),
    PostgreSQL: postgres.toFixed(digits),
    ratio: (postgres / sqlite).toFixed(2),
  });
}

/** Opens as many stores of each kind on one database, and returns the result of `measure` for each kind. */
async function withStores(count, measure) {
  schemas += 1;
  const schema = `bench_${schemas}`;
  const path = join(directory, `${schema}.sqlite`);
  const open = {
    sqlite: () => openSqliteStore({ path }),
    postgres: () => openPostgresStore({ url: server.url, schema, name: "bench" }),
  };
  const found = {};
  for (const [kind, one] of Object.entries(open)) {
    const stores = [];
    for (let n = 0; n < count; n++) stores.push(await one());
    found[kind] = await measure(stores, kind, schema);
    for (const store of stores) await store[Symbol.asyncDispose]();
  }
  return found;
}

/** Spawn to exit of /bin/true by all supervisors at the same time. */
async function spawning(count) {
  const results = {};
  for (const kind of ["sqlite", "postgres"]) {
    const homes = [];
    for (let n = 0; n < (kind === "sqlite" ? 1 : count); n++)
      homes.push(await mkdtemp(join(tmpdir(), "hf-")));
    if (kind === "postgres") process.env["HOLDFAST_DATABASE_URL"] = server.url;
    const supervisors = [];
    for (let n = 0; n < count; n++)
      supervisors.push(
        await openSupervisor({ home: homes[n] ?? homes[0], instanceId: `bench-${kind[0]}${n}` }),
      );
    delete process.env["HOLDFAST_DATABASE_URL"];
    const times = [];
    const work = async (supervisor) => {
      for (let n = 0; n < SPAWNS; n++) {
        const began = performance.now();
        await (await supervisor.spawn({ io: "pipe", argv: ["/bin/true"] })).wait();
        if (n >= 5) times.push(performance.now() - began);
      }
    };
    await Promise.all(supervisors.map(work));
    results[kind] = quantile(times, 0.5);
    for (const supervisor of supervisors) await supervisor.close();
    for (const home of homes) await rm(home, { recursive: true, force: true });
  }
  report("spawn to exit, median, ms", count, results);
}

/** Every supervisor renews its share at the same time, as after an outage. */
async function renewing() {
  const results = counts.map(() => ({}));
  await withStores(most, async (stores, kind, schema) => {
    await atOnce(LEASES, (n) => stores[0].insertRun(runOf(`r${n}`, "o0"), 30_000));
    for (const [at, count] of counts.entries()) {
      const share = `update runs set owner_instance_id = 'o' || (cast(substr(run_id, 6) as integer) % ${count})`;
      await underneath(kind, schema, share);
      const times = [];
      for (let round = 0; round < 7; round++) {
        const began = performance.now();
        const each = stores.slice(0, count).map((store, owner) => store.renewLeases(`o${owner}`, 30_000));
        const renewed = (await Promise.all(each)).reduce((sum, one) => sum + one, 0);
        times.push(performance.now() - began);
        if (renewed !== LEASES) throw new Error("not all were renewed");
      }
      results[at][kind] = quantile(times, 0.5);
    }
  });
  for (const [at, count] of counts.entries()) report(`renew ${LEASES} leases in all, ms`, count, results[at]);
}

async function underneath(kind, schema, statement) {
  if (kind === "postgres") {
    await behind.query(`set search_path = ${schema}; ${statement}`);
    await behind.query(`vacuum ${schema}.runs`);
    return;
  }
  const db = new DatabaseSync(join(directory, `${schema}.sqlite`));
  db.exec(statement);
  db.close();
}

async function stealing(stores) {
  await atOnce(STEALS, (n) => stores[0].insertRun(runOf(`v${n}`, "victim"), -1));
  const began = performance.now();
  await atOnce(STEALS, async (n) => {
    const claim = claimOf(`run_v${n}`, "victim");
    if ((await stores[n % stores.length].acquireLease(claim, [eventOf(claim.runId)])) === null)
      throw new Error("not stolen");
  });
  return (STEALS / (performance.now() - began)) * 1_000;
}

/**
 * The time from the append until the last supervisor has read the event: by notification, or (SQLite) by polling as
 * often as a gateway does.
 */
async function seeing(stores, kind, schema) {
  const watch = kind === "sqlite" ? looking : () => watching(schema);
  const readers = await Promise.all(stores.map(async (store) => ({ store, watch: await watch() })));
  const times = [];
  for (let n = 1; n <= EVENTS; n++) {
    await sleep(Math.random() * defaults.sqliteEventPollMs);
    const seen = readers.map(async ({ store, watch: { next } }) => {
      do await next();
      while ((await store.listEvents({ after: n - 1, limit: 1 })).length === 0);
    });
    const began = performance.now();
    await stores[0].appendEvents([eventOf("x")]);
    await Promise.all(seen);
    times.push(performance.now() - began);
  }
  for (const {
    watch: { end },
  } of readers)
    await end();
  return quantile(times, 0.5);
}

function looking() {
  let wake = () => {};
  const timer = setInterval(() => wake(), defaults.sqliteEventPollMs);
  return { next: () => new Promise((go) => (wake = go)), end: async () => clearInterval(timer) };
}

async function watching(schema, pollMs) {
  let wake = () => {};
  const next = () => new Promise((go) => (wake = go));
  const first = next();
  const watch = new EventWatch({ url: server.url, schema, name: "bench" }, () => wake(), pollMs);
  await first;
  return { next, end: () => watch[Symbol.asyncDispose]() };
}

/** The same without a notification: the event is written directly to the database. */
async function catchingUp() {
  const schema = "bench_silent";
  const store = await openPostgresStore({ url: server.url, schema, name: "bench" });
  const { next, end } = await watching(schema, POLL_MS);
  const times = [];
  for (let n = 1; n <= 12; n++) {
    await sleep(Math.random() * POLL_MS);
    const began = performance.now();
    await behind.query(
      `insert into ${schema}.run_events (run_id, type, at, descendants, data) values ('x', 'attach', 0, 0, '{}')`,
    );
    do await next();
    while ((await store.listEvents({ after: n - 1, limit: 1 })).length === 0);
    times.push(performance.now() - began);
  }
  await end();
  await store[Symbol.asyncDispose]();
  single(`an event without a notification, polling every ${POLL_MS} ms, median`, quantile(times, 0.5), "ms");
}

function single(measured, value, unit) {
  rows.push({ measured, PostgreSQL: `${value.toFixed(0)} ${unit}` });
}
