// Cost against size: what one operation costs with 10, 100, 1,000 and 10,000 ended runs on record, and with as many
// open runs at once, as far as the machine's process ids allow.
//
// Usage: node bench/scale.mjs [--most <number>] [--samples <number>] [--write]
//   --write   write the plot and the table of docs/reference/performance.md
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { DatabaseSync } from "@photostructure/sqlite";
import { createClient } from "../dist/api/client.js";
import { startGateway } from "../dist/gateway/start-in-background.js";
import { gatewaySocketPath } from "../dist/home/state-directory.js";
import { readOperatorToken } from "../dist/sessions/tokens.js";
import { quantile } from "./measure.mjs";
import { logPlot } from "./support/log-plot.mjs";
import { describeLoad, describeMachine, today } from "./support/machine.mjs";
import { markdownTable, writeBlock } from "./support/marked-block.mjs";
import { enterNamespace } from "./support/namespace.mjs";
import { listProcesses, memoryKb } from "./support/processes.mjs";

const PAGE = "docs/reference/performance.md";
const PLOT = "docs/reference/performance-size.svg";
const SIZES = [10, 100, 1_000, 10_000];
const CLIENTS = 5;
/** An anchor and its command; and ids that are left to the rest of the machine. */
const PROCESSES_PER_RUN = 2;
const SPARE_PIDS = 8_000;

const { values: flags } = parseArgs({
  options: {
    most: { type: "string", default: "10000" },
    samples: { type: "string", default: "60" },
    write: { type: "boolean" },
  },
});
const samples = Number(flags.samples);
const loadBefore = process.env.HOLDFAST_BENCH_LOAD ?? describeLoad();
process.env.HOLDFAST_BENCH_LOAD = loadBefore;
if (!enterNamespace()) await main();

async function main() {
  const most = Number(flags.most);
  const sizes = SIZES.filter((size) => size <= most);
  const possible = possibleRuns();
  const openSizes = sizes.filter((size) => size <= possible);
  const records = await withGateway((gateway) => growRecords(gateway, sizes));
  const runs = await withGateway((gateway) => growRuns(gateway, openSizes));
  const left = sizes.filter((size) => !openSizes.includes(size));
  const about = [
    `Measured on ${today()}: ${describeMachine()}, load average ${loadBefore} before the start, SQLite.`,
    ...(left.length > 0 ? [`Open runs only up to ${possible}: this machine has no more process ids.`] : []),
  ].join(" ");
  const table = markdownTable(
    ["", ...sizes.map((size) => size.toLocaleString("en-US"))],
    [...tableRows("ended runs on record", records, sizes), ...tableRows("open runs", runs, sizes)],
  );
  console.log(`${about}\n\n${table}`);
  if (flags.write !== true) return;
  const panel = (title, x, lines) => ({
    title,
    x,
    y: "",
    lines: lines.map(({ name, points }) => ({ name, points: points.filter(([, value]) => value > 0) })),
  });
  const plot = logPlot(
    [panel("ended runs on record", "ended runs", records), panel("open runs", "open runs", runs)],
    "Cost of one operation against the number of ended runs on record and of open runs",
  );
  writeFileSync(new URL(`../${PLOT}`, import.meta.url), plot);
  writeBlock(
    PAGE,
    "size",
    `${about}\n\n![Cost of one operation against size](performance-size.svg)\n\n${table}`,
  );
}

function tableRows(what, lines, sizes) {
  return lines.map(({ name, points }) => [
    `${what}: ${name}`,
    ...sizes.map((size) => {
      const value = points.find(([at]) => at === size)?.[1];
      return value === undefined
        ? "-"
        : value.toPrecision(2).includes("e")
          ? value.toFixed(0)
          : value.toPrecision(2);
    }),
  ]);
}

/** By the process ids that this machine has left. */
function possibleRuns() {
  const most = Number(readFileSync("/proc/sys/kernel/pid_max", "utf8"));
  const [, , , tasks] = readFileSync("/proc/loadavg", "utf8").split(/[ /]/).slice(0, 5).map(Number);
  return Math.floor((most - (Number.isNaN(tasks) ? 0 : tasks) - SPARE_PIDS) / PROCESSES_PER_RUN);
}

async function withGateway(work) {
  const home = await mkdtemp(join(tmpdir(), "hf-"));
  const start = async () => {
    const began = performance.now();
    const { status } = await startGateway(home);
    return { pid: status.pid, ms: performance.now() - began };
  };
  const { pid } = await start();
  const token = await readOperatorToken(home);
  const connect = () => createClient({ socketPath: gatewaySocketPath(home), token });
  const client = connect();
  const stop = async (runs) => {
    await connect().stop({ body: { runs } });
    await ended(pid);
  };
  try {
    return await work({ home, pid, client, clients: Array.from({ length: CLIENTS }, connect), start, stop });
  } finally {
    await connect()
      .stop({ body: { runs: "terminate" } })
      .catch(() => undefined);
    await rm(home, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function ended(pid) {
  while (listProcesses().some((each) => each.pid === pid)) await sleep(5);
}

/** The median duration of an operation, in ms. */
async function median(call, times = samples) {
  for (let warm = 0; warm < 3; warm++) await call();
  const taken = [];
  for (let n = 0; n < times; n++) {
    const began = performance.now();
    await call();
    taken.push(performance.now() - began);
  }
  return quantile(taken, 0.5);
}

function exec(client) {
  return client.exec({ body: { argv: ["/bin/true"], maxChars: 0 } });
}

/** Adds to the line of the plot with this name: the cost of an operation at each size. */
function add(lines, name, size, value) {
  const line = lines.find((each) => each.name === name);
  if (line === undefined) lines.push({ name, points: [[size, value]] });
  else line.points.push([size, value]);
}

/** Records are copies of a real one, with its events. */
async function growRecords({ home, client }, sizes) {
  const lines = [];
  const { run } = await exec(client);
  for (let warm = 0; warm < 30; warm++) await exec(client);
  let last = run.runId;
  let copied = 0;
  const emptyBytes = bytesOfStore(home);
  for (const size of sizes) {
    copyRun(home, run.runId, copied, size);
    copied = size;
    ({ runId: last } = (await exec(client)).run);
    add(lines, "exec of true, ms", size, await median(() => exec(client)));
    add(
      lines,
      "page of 50 runs, ms",
      size,
      await median(() => client.listRuns({ query: { limit: 50, all: true } })),
    );
    add(lines, "one run, ms", size, await median(() => client.poll({ params: { runId: last } })));
    add(lines, "store per run, kB", size, (bytesOfStore(home) - emptyBytes) / 1_024 / size);
  }
  return lines;
}

/** Of its file when the log is in it: the log has the same size whatever the number of runs. */
function bytesOfStore(home) {
  const db = openStore(home);
  db.exec("pragma wal_checkpoint(passive)");
  const [{ pages, size }] = db
    .prepare("select page_count as pages, page_size as size from pragma_page_count, pragma_page_size")
    .all();
  db.close();
  return pages * size;
}

function openStore(home) {
  const file =
    readdirSync(home).find((name) => name.endsWith(".sqlite") && name.includes("store")) ?? "store.sqlite";
  const db = new DatabaseSync(join(home, file));
  db.exec("pragma busy_timeout = 10000");
  return db;
}

function copyRun(home, runId, from, to) {
  const db = openStore(home);
  const copy = (table, changed, dropped = []) => {
    const columns = db
      .prepare(`select name from pragma_table_info('${table}')`)
      .all()
      .map(({ name }) => name)
      .filter((name) => !dropped.includes(name));
    const values = columns.map((name) => changed[name] ?? `${table}.${name}`);
    const numbers = `(with recursive n (i) as (select ${from} union all select i + 1 from n where i < ${to - 1}) select i from n) as n`;
    db.exec(
      `insert into ${table} (${columns.join(", ")}) select ${values.join(", ")} from ${numbers}, ${table} where ${table}.run_id = '${runId}'`,
    );
  };
  const id = "'run_' || substr('000000000000' || i, -12)";
  copy("runs", { run_id: id, lease_id: "'lease_' || i", created_at: "runs.created_at - i" });
  copy("run_events", { run_id: id }, ["seq"]);
  db.close();
}

/** Runs that wait, started and stopped for each size. */
async function growRuns({ pid, client, clients }, sizes) {
  const lines = [];
  for (let warm = 0; warm < 50; warm++) await exec(client);
  const restKb = memoryKb(pid, "status", "VmRSS");
  for (const size of sizes) {
    const started = [];
    const startMs = await fromAll(clients, Array(size).keys(), async (each) => {
      const { run } = await each.exec({ body: { argv: ["/bin/sleep", "100000"], background: true } });
      started.push(run.runId);
    });
    process.stderr.write(`${size} open runs\n`);
    add(lines, "start of a run, ms", size, startMs / size);
    add(lines, "exec of true, ms", size, await median(() => exec(client)));
    add(lines, "page of 50 runs, ms", size, await median(() => client.listRuns({ query: { limit: 50 } })));
    add(lines, "gateway per run, kB", size, Math.max(0, memoryKb(pid, "status", "VmRSS") - restKb) / size);
    add(lines, "anchor per run, kB", size, anchorKb(Math.min(size, 200)));
    add(lines, "gateway at rest, CPU ms per second", size, await cpuAtRest(pid));
    const stopMs = await fromAll(clients, started, async (each, runId) => {
      const { outcome } = await each.kill({ params: { runId }, body: { graceMs: 0 } });
      if (outcome !== "gone") throw new Error(`${runId}: ${outcome}`);
    });
    add(lines, "stop of a run, ms", size, stopMs / size);
  }
  return lines;
}

/** On average, of so many of them. */
function anchorKb(count) {
  const anchors = listProcesses()
    .filter(({ argv }) => argv[0] === "holdfast-anchor" && argv[1] === "run")
    .slice(0, count);
  const sum = anchors.reduce((kb, { pid }) => kb + memoryKb(pid, "smaps_rollup", "Pss"), 0);
  return sum / Math.max(1, anchors.length);
}

async function cpuAtRest(pid) {
  const ms = () => {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [user, system] = stat.slice(stat.lastIndexOf(")")).split(" ").slice(12);
    // In ticks of 10 ms.
    return (Number(user) + Number(system)) * 10;
  };
  await sleep(1_000);
  const before = ms();
  const seconds = 10;
  await sleep(seconds * 1_000);
  return (ms() - before) / seconds;
}

/** From several clients at once; milliseconds. */
async function fromAll(clients, inputs, call) {
  const left = [...inputs];
  const began = performance.now();
  await Promise.all(
    clients.map(async (client) => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) await call(client, next);
    }),
  );
  return performance.now() - began;
}
