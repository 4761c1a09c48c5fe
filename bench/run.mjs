// Runs the benchmarks and compares the results with the goals (bench/goals.mjs). Ratios are comparable between machines,
// absolute figures are not. Each result is saved in build/bench-results.json at once, so that a run can be resumed. Exits
// with 1 if a part failed, or if a goal names a row that its part does not print.
//
// Usage: npm run bench -- [options]
//   --only <part>[,<part>…]   only these parts; otherwise those that have a goal, and what their reasons quote
//   --rounds <number>         how often each part is measured: 1, or 3 with --write
//   --write                   write the table of docs/reference/performance.md from all saved results
//   --resume                  keep the saved results and measure what is missing; `--rounds 0 --resume` measures nothing
//   --minutes <number>        start nothing that would probably take longer in all
//   --results <file>          where results are saved; default: build/bench-results.json
//   --json                    print everything as JSON
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { compareWithGoals, goals, goalsWithoutRow } from "./goals.mjs";
import { formatRows } from "./measure.mjs";
import { describeLoad, describeMachine, today } from "./support/machine.mjs";
import { namespaceWords } from "./support/namespace.mjs";
import { writeGoals } from "./support/write-goals.mjs";

/** By name: the script and its arguments. */
const parts = {
  startup: ["startup.mjs", "10"],
  spawn: ["spawn.mjs", "400"],
  "spawn-large": ["spawn.mjs", "60", "1024"],
  floor: ["floor.mjs", "200"],
  kill: ["kill.mjs"],
  output: ["output.mjs"],
  client: ["client.mjs", "60"],
  mcp: ["mcp.mjs", "40"],
  gateway: ["gateway.mjs", "200", "1000"],
  concurrent: ["concurrent.mjs", "1000", "5000"],
  acp: ["acp.mjs", "200", "50000"],
  tasks: ["tasks.mjs", "2000", "10000", "1000"],
  reconcile: ["reconcile.mjs", "10000"],
  postgres: ["postgres.mjs", "200", "30"],
  idle: ["idle.mjs", "500"],
  leases: ["leases.mjs"],
  store: ["store.mjs"],
  dashboard: ["dashboard.mjs", "1000", "100"],
  "many-hosts": ["many-hosts.mjs"],
};
/** A part that takes longer is ended and reported as failed. */
const PART_MS = 180_000;
const here = fileURLToPath(new URL(".", import.meta.url));
const { values: flags } = parseArgs({
  options: {
    only: { type: "string" },
    rounds: { type: "string" },
    write: { type: "boolean" },
    resume: { type: "boolean" },
    minutes: { type: "string" },
    results: { type: "string" },
    json: { type: "boolean" },
  },
});
const saved = flags.results ?? join(here, "../build/bench-results.json");
const known = Object.keys(parts);
const wanted =
  flags.only?.split(",") ??
  known.filter((name) => name === "floor" || goals.some(({ part }) => part === name));
const unknown = wanted.filter((name) => !known.includes(name));
if (unknown.length > 0) {
  console.error(`there is no part ${unknown.join(", ")}; parts: ${known.join(", ")}`);
  process.exit(2);
}
const rounds = Number(flags.rounds ?? (flags.write === true ? 3 : 1));
const untilMs = flags.minutes === undefined ? Infinity : Number(flags.minutes) * 60_000;

/** The rounds of each part: rows, date, load of the machine before it, and how long it took. */
const results = readSaved();
const failed = [];
const skipped = [];
const progress = (text) => flags.json === true || process.stderr.write(text);
const directory = mkdtempSync(join(tmpdir(), "hf-"));
// A database server of another user has its directory below.
chmodSync(directory, 0o755);
try {
  measureAll();
} finally {
  rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
}
print();
if (flags.write === true) writeGoals(results);
for (const [what, list] of Object.entries({ failed, "not measured for lack of time": skipped }))
  if (list.length > 0) console.error(`${what}: ${list.join(", ")}`);
const withoutRow = goalsWithoutRow(rowsByPart()).filter(({ part }) => wanted.includes(part));
for (const { work, part, find, from } of withoutRow)
  console.error(
    `the goal "${work}" cannot be compared: ${part} printed no row "${find}…" with a figure in "${from}…"`,
  );
process.exitCode = failed.length + withoutRow.length > 0 ? 1 : 0;

function readSaved() {
  const before = existsSync(saved) ? JSON.parse(readFileSync(saved, "utf8")) : {};
  if (flags.resume === true) return before;
  // Results of other parts are kept if only some are measured.
  return flags.only === undefined
    ? {}
    : Object.fromEntries(Object.entries(before).filter(([name]) => !wanted.includes(name)));
}

/** Every part once, then every part again, so that the rounds are spread over time. */
function measureAll() {
  const durations = { ...lastDurations() };
  const due = Array.from({ length: rounds }, (_, round) =>
    wanted.filter((name) => (results[name]?.length ?? 0) <= round).map((name) => ({ name, round })),
  ).flat();
  const isolated = namespaceWords();
  const began = performance.now();
  for (const [at, { name, round }] of due.entries()) {
    const elapsed = performance.now() - began;
    if (elapsed + (durations[name] ?? 0) * 1_000 > untilMs) {
      skipped.push(`${name} (round ${round + 1})`);
      continue;
    }
    const left = due.slice(at).reduce((sum, each) => sum + (durations[each.name] ?? 20), 0);
    progress(
      `${at + 1}/${due.length} round ${round + 1}: ${name} (about ${Math.ceil(left / 60)} min left) … `,
    );
    const result = measure(name, isolated);
    progress(result === null ? "failed\n" : `${result.seconds} s\n`);
    if (result === null) {
      failed.push(`${name} (round ${round + 1})`);
      continue;
    }
    durations[name] = result.seconds;
    results[name] = [...(results[name] ?? []), result];
    save();
  }
}

/** Null: it failed. In a PID namespace of its own where that is possible, so that nothing it started outlives it. */
function measure(name, isolated) {
  const [script, ...args] = parts[name];
  const env = { ...process.env };
  for (const variable of Object.keys(env)) if (variable.startsWith("HOLDFAST_")) delete env[variable];
  const load = describeLoad();
  const began = performance.now();
  const [program, ...words] = [...isolated, process.execPath, join(here, script), ...args];
  const { status, stdout, error } = spawnSync(program, words, {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
    maxBuffer: 64 * 1024 * 1024,
    timeout: PART_MS,
    killSignal: "SIGKILL",
    env: { ...env, TMPDIR: directory, HOLDFAST_BENCH_PREFIX: join(directory, "programs") },
  });
  if (error?.code === "ETIMEDOUT") console.error(`${name} was ended after ${PART_MS / 1_000} s`);
  if (status !== 0) return null;
  try {
    const seconds = Math.round((performance.now() - began) / 1_000);
    return { at: today(), machine: describeMachine(), load, seconds, rows: JSON.parse(stdout) };
  } catch {
    return null;
  }
}

/** In seconds, of the saved results. */
function lastDurations() {
  const before = existsSync(saved) ? JSON.parse(readFileSync(saved, "utf8")) : {};
  return Object.fromEntries(Object.entries(before).map(([name, list]) => [name, list.at(-1)?.seconds ?? 0]));
}

function save() {
  mkdirSync(join(saved, ".."), { recursive: true });
  writeFileSync(saved, JSON.stringify(results, null, 1));
}

function rowsByPart() {
  return Object.fromEntries(
    Object.entries(results).map(([name, list]) => [name, list.map((each) => each.rows)]),
  );
}

function print() {
  const rows = rowsByPart();
  const compared = compareWithGoals(rows).filter(({ part }) => wanted.includes(part));
  if (flags.json === true) {
    console.log(JSON.stringify({ machine: describeMachine(), results, goals: compared, failed }, null, 2));
    return;
  }
  console.log(describeMachine());
  for (const name of wanted)
    if (rows[name] !== undefined) console.log(`\n${name}\n${formatRows(rows[name].at(-1))}`);
  if (compared.length > 0) console.log(`\ngoals\n${formatRows(compared)}`);
}
