// Background tasks: the durable registry compared with bare transactions of the same database, long lists, and the
// notifier.
//
// Usage: tasks.mjs [tasks] [records in the list] [notifications]
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import pg from "pg";
import { openSqliteStore } from "../dist/store/sqlite/open.js";
import { openPostgresStore } from "../dist/store/postgres/open.js";
import { withTaskCopy } from "../dist/store/local-copy/with-task-copy.js";
import { TaskCopy } from "../dist/store/local-copy/task-copy.js";
import { deferred } from "../dist/async/deferred.js";
import { Notifier } from "../dist/tasks/notifier.js";
import { Tasks } from "../dist/tasks/tasks.js";
import { quantile } from "./measure.mjs";
import { startPostgres } from "./postgres-server.mjs";

const [tasks = 2_000, records = 100_000, notifications = 5_000] = process.argv.slice(2).map(Number);
const AT_ONCE = 32;
const TURNS = 10;
const directory = await mkdtemp(join(tmpdir(), "hf-bench-"));
const server = await startPostgres();
const path = join(directory, "store.sqlite");
const rows = [];
const sqlite = await openSqliteStore({ path });
const postgres = await openPostgresStore({ url: server.url, schema: "bench", name: "bench" });
const pool = new pg.Pool({ connectionString: server.url, max: 10 });
// The statement on a lost connection reports the error.
pool.on("error", () => {});
pool.on("connect", (client) => client.on("error", () => {}));
await pool.query("create table bare (id text primary key, data text not null)");
const bare = new DatabaseSync(join(directory, "bare.sqlite"));
bare.exec(
  "pragma journal_mode = wal; pragma synchronous = full; create table bare (id text primary key, data text)",
);
const insert = bare.prepare("insert into bare values (?, ?)");
const localCopy = await TaskCopy.open(join(directory, "ledger"));
const target = { kind: "session", sessionId: "ses_parent" };
const data = "x".repeat(500);

for (const [name, store, commit] of [
  ["SQLite", sqlite, async (n) => void insert.run(String(n), data)],
  ["PostgreSQL", postgres, (n) => pool.query("insert into bare values ($1, $2)", [String(n), data])],
  // As a gateway uses it, with a local copy for a store that is restored from a backup.
  [
    "PostgreSQL with a local copy",
    withTaskCopy(postgres, localCopy, () => {}),
    (n) => pool.query("insert into bare values ($1, $2)", [`noted ${n}`, data]),
  ],
]) {
  const registry = new Tasks({ store });
  const { ours, theirs } = await inTurns(tasks, (n) => wholeLife(registry, `${n}`), commit);
  const measured = `${name}: tasks created and finished with their message, ${AT_ONCE} at a time`;
  report(measured, ours, `${theirs.toFixed(0)} bare transactions`, ours / theirs);
  await drained(name, store, notifications);
  const ended = await store.listTasks({ open: false, limit: tasks + notifications });
  for (let at = 0; at < ended.length; at += 1_000)
    await store.deleteTasks(ended.slice(at, at + 1_000).map(({ taskId }) => taskId));
}
await lists();

await localCopy[Symbol.asyncDispose]();
await sqlite[Symbol.asyncDispose]();
await postgres[Symbol.asyncDispose]();
await pool.end();
bare.close();
await server.stop();
await rm(directory, { recursive: true, force: true });
console.log(JSON.stringify(rows));

async function wholeLife(registry, key) {
  const now = Date.now();
  const input = { runtime: "external", key: `caller:operator:${key}`, text: "work", targets: [target] };
  const { task } = await registry.create(input);
  const end = { status: "succeeded", outcome: "succeeded", summary: data, error: null, actor: "" };
  await registry.apply(task.taskId, { type: "finish", at: now, startedAt: now, ...end });
}

/** Calls per second of each, in alternating slices, so that noise affects both. */
async function inTurns(count, ours, theirs) {
  const slice = Math.ceil(count / TURNS);
  const ms = { ours: 0, theirs: 0 };
  for (let turn = 0; turn < TURNS; turn++) {
    ms.ours += await timeOf(slice, (n) => ours(turn * slice + n));
    ms.theirs += await timeOf(slice, (n) => theirs(turn * slice + n));
  }
  const perSecond = (total) => ((slice * TURNS) / total) * 1_000;
  return { ours: perSecond(ms.ours), theirs: perSecond(ms.theirs) };
}

async function timeOf(count, call) {
  const began = performance.now();
  let next = 0;
  const worker = async () => {
    for (let n = next++; n < count; n = next++) await call(n);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return performance.now() - began;
}

/** Sends messages of ended tasks with a notifier whose receiver answers at once. */
async function drained(name, store, count) {
  const registry = new Tasks({ store });
  const waiting = (await store.listOutbox({ statuses: ["pending"] })).length;
  await timeOf(Math.max(0, count - waiting), (n) => wholeLife(registry, `n${n}`));
  const total = (await store.listOutbox({ statuses: ["pending"] })).length;
  let sent = 0;
  const all = deferred();
  const deliver = async () => {
    sent += 1;
    if (sent === total) all.resolve();
    return { status: "delivered", receipt: null };
  };
  const notifier = new Notifier({ store, deliver, owner: "bench" });
  const began = performance.now();
  notifier.start();
  await all.promise;
  await notifier.stop();
  report(
    `${name}: messages claimed, sent and marked`,
    (total / (performance.now() - began)) * 1_000,
    "",
    null,
  );
}

async function lists() {
  const copies = (
    series,
  ) => `insert into tasks select 'task_' || i, null, case i % 4 when 0 then 'acp' else 'exec' end, kind,
    'ses_' || (i % 100), child_session_id, parent_task_id, agent_id, run_id, turn_id, label, task_text,
    case i % 50 when 0 then 'failed' else 'succeeded' end, delivery, policy, targets, created_at + i, started_at, ended_at,
    last_event_at, progress, summary, case i % 50 when 0 then null else 'succeeded' end, error, cleanup_after, heartbeat_ms,
    missing_since, stalled_at, noticed_at, last_seq, version, origin from tasks, ${series} where task_id = (select min(task_id) from tasks)`;
  for (const store of [sqlite, postgres]) await wholeLife(new Tasks({ store }), "model");
  const db = new DatabaseSync(path);
  const n = `(with recursive n (i) as (select 1 union all select i + 1 from n where i < ${records}) select i from n) as n`;
  db.exec(copies(n));
  db.exec("analyze");
  db.close();
  const client = await pool.connect();
  await client.query("set search_path to bench");
  await client.query(copies(`generate_series(1, ${records}) as n (i)`));
  await client.query("analyze tasks");
  client.release();
  for (const [name, store] of [
    ["SQLite", sqlite],
    ["PostgreSQL", postgres],
  ]) {
    const [middle] = await store.listTasks({ runtimes: ["acp"], limit: 1 });
    const after = { createdAt: middle.createdAt - records / 2, taskId: middle.taskId };
    for (const [what, filter] of [
      ["newest", {}],
      ["from the middle", { after }],
      ["by status", { statuses: ["failed"] }],
      ["by runtime", { runtimes: ["acp"] }],
      ["of a session", { sessionId: "ses_7" }],
      ["open", { open: true }],
    ]) {
      const times = [];
      for (let turn = 0; turn < 40; turn++) {
        const began = performance.now();
        await store.listTasks({ limit: 50, ...filter });
        times.push(performance.now() - began);
      }
      rows.push({
        measured: `${name}: a page of 50 of ${records} tasks, ${what}, ms p50/p99`,
        holdfast: `${quantile(times, 0.5).toFixed(2)} / ${quantile(times, 0.99).toFixed(2)}`,
        beside: "",
        ratio: "",
      });
    }
  }
}

function report(measured, perSecond, beside, ratio) {
  rows.push({
    measured: `${measured}, per second`,
    holdfast: perSecond.toFixed(0),
    beside,
    ratio: ratio === null ? "" : ratio.toFixed(2),
  });
}
