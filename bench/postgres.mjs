// The cost of a short run for a PostgreSQL server (statements, commits, write-ahead log), runs per second of 8 callers of one
// gateway on SQLite and on PostgreSQL, and the statements of an idle gateway.
//
// Usage: node bench/postgres.mjs [runs] [idle seconds]
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { createClient } from "../dist/api/client.js";
import { environmentOutsideRuns, startGateway } from "../dist/gateway/start-in-background.js";
import { gatewaySocketPath } from "../dist/home/state-directory.js";
import { openSupervisor } from "../dist/index.js";
import { readOperatorToken } from "../dist/sessions/tokens.js";
import { quantile } from "./measure.mjs";
import { startPostgres } from "./postgres-server.mjs";

const [runs = 300, idleSeconds = 60] = process.argv.slice(2).map(Number);
const CALLERS = 8;
const TURNS = 5;

const server = await startPostgres({ shared_preload_libraries: "pg_stat_statements" });
const observer = new pg.Client(server.url);
await observer.connect();
await observer.query("create extension pg_stat_statements");
try {
  console.log(JSON.stringify([...(await shortRun()), ...(await gateways())]));
} finally {
  await observer.end();
  await server.stop();
}

/** The cost of one run, from runs one after the other in a supervisor without a gateway, whose own cost is subtracted. */
async function shortRun() {
  await costOf(20);
  // Before it, the first change of each page is logged with the whole page.
  await observer.query("checkpoint");
  await costOf(20);
  const base = await costOf(0);
  const total = await costOf(runs);
  const line = (what, value) => ({
    measured: `PostgreSQL per short run, ${what}`,
    "holdfast p50/p99": value.toFixed(1),
  });
  return [
    line("statements", (total.statements - base.statements) / runs),
    line("commits", (total.commits - base.commits) / runs),
    line("kB of WAL", (total.wal - base.wal) / runs / 1_000),
  ];
}

/** The cost of a supervisor that executes this many runs. */
async function costOf(count) {
  const home = await mkdtemp(join(tmpdir(), "hf-"));
  const before = await counters();
  process.env.HOLDFAST_DATABASE_URL = server.url;
  const supervisor = await openSupervisor({ home });
  delete process.env.HOLDFAST_DATABASE_URL;
  for (let n = 0; n < count; n++) await (await supervisor.spawn({ io: "pipe", argv: ["/bin/true"] })).wait();
  await supervisor.close();
  await rm(home, { recursive: true, force: true });
  const after = await counters();
  return Object.fromEntries(Object.keys(after).map((name) => [name, after[name] - before[name]]));
}

async function gateways() {
  const postgres = await openGateway({ HOLDFAST_DATABASE_URL: server.url });
  const sqlite = await openGateway({});
  try {
    const statements = await idleStatements();
    const rates = { sqlite: [], postgres: [] };
    const used = { server: 0, postgres: 0, sqlite: 0 };
    const execCounted = async (name, { callers, cpuMs: ofGateway }) => {
      const [gateway, database] = [ofGateway(), server.cpuMs()];
      rates[name].push(await execAll(callers, runs));
      used[name] += ofGateway() - gateway;
      if (name === "postgres") used.server += server.cpuMs() - database;
    };
    for (const { callers } of [sqlite, postgres]) await execAll(callers, 50);
    for (let turn = 0; turn < TURNS; turn++) {
      await execCounted("sqlite", sqlite);
      await execCounted("postgres", postgres);
    }
    const [ours, theirs] = [quantile(rates.postgres, 0.5), quantile(rates.sqlite, 0.5)];
    const perRun = (name) => used[name] / (TURNS * runs);
    // All processors are busy, so a run would take so much less if the server were on another machine.
    const elsewhere = 1_000 / (1_000 / ours - perRun("server") / availableParallelism());
    return [
      {
        measured: `runs, ${CALLERS} callers of one gateway, per second`,
        "holdfast p50/p99": ours.toFixed(0),
        against: "SQLite",
        "its p50/p99": theirs.toFixed(0),
        "ratio p50": (ours / theirs).toFixed(2),
      },
      {
        measured: "the same without the processor time of the server (calculated)",
        "holdfast p50/p99": elsewhere.toFixed(0),
        against: "SQLite",
        "its p50/p99": theirs.toFixed(0),
        "ratio p50": (elsewhere / theirs).toFixed(2),
      },
      { measured: "PostgreSQL server, CPU ms per run", "holdfast p50/p99": perRun("server").toFixed(2) },
      {
        measured: "gateway, CPU ms per run",
        "holdfast p50/p99": perRun("postgres").toFixed(2),
        against: "SQLite",
        "its p50/p99": perRun("sqlite").toFixed(2),
        "ratio p50": (perRun("postgres") / perRun("sqlite")).toFixed(2),
      },
      {
        measured: `idle gateway, statements a minute (in ${idleSeconds} s)`,
        "holdfast p50/p99": statements.toFixed(0),
      },
    ];
  } finally {
    await sqlite.stop();
    await postgres.stop();
  }
}

/** Per minute, after the gateway has done what it does once. */
async function idleStatements() {
  await sleep(5_000);
  const before = await counters();
  await sleep(idleSeconds * 1_000);
  const after = await counters();
  return ((after.statements - before.statements) / idleSeconds) * 60;
}

async function openGateway(settings) {
  const home = await mkdtemp(join(tmpdir(), "hf-"));
  const { status } = await startGateway(home, undefined, undefined, {
    ...environmentOutsideRuns(),
    ...settings,
  });
  const token = await readOperatorToken(home);
  const connect = () => createClient({ socketPath: gatewaySocketPath(home), token });
  const stop = async () => {
    await connect().stop({ body: { runs: "terminate" } });
    await rm(home, { recursive: true, force: true, maxRetries: 5 });
  };
  return { callers: Array.from({ length: CALLERS }, connect), stop, cpuMs: () => cpuMs(status.pid) };
}

/** CPU time of a process, in ticks of 10 ms. */
function cpuMs(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const [user, system] = stat.slice(stat.lastIndexOf(")")).split(" ").slice(12);
  return (Number(user) + Number(system)) * 10;
}

/** Runs per second. */
async function execAll(callers, count) {
  let left = count;
  const began = performance.now();
  await Promise.all(
    callers.map(async (caller) => {
      while (left-- > 0) await caller.exec({ body: { argv: ["/bin/true"], maxChars: 0 } });
    }),
  );
  return (count / (performance.now() - began)) * 1_000;
}

/** Commits are complete only of connections that are closed: others report theirs up to ten seconds later. */
async function counters() {
  await sleep(300);
  await observer.query("select pg_stat_clear_snapshot()");
  const { rows } = await observer.query(`select
    (select coalesce(sum(calls), 0) from pg_stat_statements where query not like '%pg_stat%') as statements,
    (select sum(xact_commit) from pg_stat_database where datname = 'postgres') as commits,
    pg_current_wal_insert_lsn() - '0/0' as wal`);
  return Object.fromEntries(Object.entries(rows[0]).map(([name, value]) => [name, Number(value)]));
}
