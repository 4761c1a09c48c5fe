/**
 * The rows of docs/reference/performance.md: a kind of work, its goal, and where the benchmarks measure it. `find` is the
 * beginning of the row's name; `from` is the beginning of the column's name, or `difference` for that of the two medians; `nth` is the number to take from it, from 0.
 */
const atMost = (most, unit) => ({ most, unit });
const atLeast = (least, unit) => ({ least, unit });
const RATIO = { from: "ratio" };
const OURS = { from: "holdfast" };

export const goals = [
  goal(
    "spawn to exit of `/bin/true`, library, against bare spawn",
    atMost(1, "×"),
    "spawn",
    "spawn to exit",
    RATIO,
  ),
  goal(
    "spawn to exit of `/bin/true`, library, with 1 GB resident, against bare spawn",
    atMost(0.08, "×"),
    "spawn-large",
    "spawn to exit",
    RATIO,
  ),
  goal("exec over the API against bare spawn", atMost(1.5, "×"), "gateway", "exec over the API", RATIO),
  goal("gateway CPU per exec", atMost(1.5, "ms"), "gateway", "gateway CPU per exec", OURS),
  goal(
    "runs per second, 5 clients over the API, against bare spawn at the same parallelism",
    atLeast(0.8, "×"),
    "gateway",
    "1000 runs from 5 clients",
    RATIO,
  ),
  goal(
    "`holdfast run -- true` against `node -e 0`",
    atMost(0.3, "×"),
    "client",
    "`holdfast run -- true`",
    RATIO,
  ),
  goal(
    "`holdfast run -- true` against `tsp` and `tsp -w`",
    atMost(4, "×"),
    "client",
    "the native command against",
    RATIO,
  ),
  goal("memory of a waiting `holdfast run`", atMost(3, "MB"), "client", "memory of a waiting", OURS),
  goal(
    "memory that wrapping adds to an MCP server",
    atMost(3, "MB"),
    "mcp",
    "memory that wrapping adds to an MCP server",
    OURS,
  ),
  goal(
    "start-up that wrapping adds to an MCP server",
    atMost(20, "ms"),
    "mcp",
    "wrapped MCP server, start to first answer",
    { from: "difference" },
  ),
  goal(
    "`gateway status` against `node -e 0`",
    atMost(1.3, "×"),
    "startup",
    "start-up: gateway status",
    RATIO,
  ),
  goal("`runs list` against `node -e 0`", atMost(1.3, "×"), "startup", "start-up: runs list", RATIO),
  goal("`ps` against `node -e 0`", atMost(1.3, "×"), "startup", "start-up: ps, one run", RATIO),
  goal(
    "poll requests per second",
    atLeast(5_000, "/s"),
    "gateway",
    "the same on kept connections: poll",
    OURS,
  ),
  goal(
    "list requests per second",
    atLeast(5_000, "/s"),
    "gateway",
    "the same on kept connections: list",
    OURS,
  ),
  goal(
    "KILL to terminal record, 1 process",
    atMost(1, "ms"),
    "kill",
    "KILL to terminal record, ms (1 processes, best tier)",
    OURS,
  ),
  goal(
    "KILL to terminal record, per process of 1,000",
    atMost(0.12, "ms"),
    "kill",
    "KILL to terminal record, ms (1000 processes, best tier)",
    {
      from: "per process",
    },
  ),
  goal(
    "output followed into Node against `cmd | cat`",
    atLeast(0.9, "×"),
    "output",
    "output, MB/s (followed under back-pressure",
    RATIO,
  ),
  goal(
    "output followed into a foreground caller against `cmd | cat`",
    atLeast(1, "×"),
    "client",
    "output, MB/s (foreground",
    RATIO,
  ),
  goal("ACP turn of one update, over the agent alone", atMost(2.5, "ms"), "acp", "ACP turn", {
    from: "difference",
  }),
  goal("ACP updates per second against parsing only", atLeast(0.7, "×"), "acp", "ACP updates/s", RATIO),
  goal(
    "tasks created and finished with durable message, SQLite",
    atLeast(3_000, "/s"),
    "tasks",
    "SQLite: tasks created and finished",
    OURS,
  ),
  goal(
    "tasks created and finished with durable message, PostgreSQL",
    atLeast(2_000, "/s"),
    "tasks",
    "PostgreSQL: tasks created and finished",
    OURS,
  ),
  goal(
    "PostgreSQL: statements per short run",
    atMost(6, ""),
    "postgres",
    "PostgreSQL per short run, statements",
    OURS,
  ),
  goal(
    "PostgreSQL: commits per short run",
    atMost(3, ""),
    "postgres",
    "PostgreSQL per short run, commits",
    OURS,
  ),
  goal(
    "PostgreSQL: WAL per short run",
    atMost(4, "kB"),
    "postgres",
    "PostgreSQL per short run, kB of WAL",
    OURS,
  ),
  goal(
    "PostgreSQL: runs per second at 8 callers against SQLite",
    atLeast(0.8, "×"),
    "postgres",
    "runs, 8 callers",
    RATIO,
  ),
  goal(
    "idle gateway on PostgreSQL, statements a minute",
    atMost(30, ""),
    "postgres",
    "idle gateway, statements a minute",
    OURS,
  ),
  goal("reconcile per record: verified alive", atMost(30, "µs"), "reconcile", "10000 of a stuck owner", {
    from: "µs per record",
  }),
  goal("reconcile per record: ended on record", atMost(60, "µs"), "reconcile", "10000 of a dead owner", {
    from: "µs per record",
  }),
  goal("idle gateway, resident", atMost(65, "MB"), "gateway", "gateway after its start, MB resident", OURS),
  goal(
    "event-loop delay with 1,000 runs starting, p99",
    atMost(20, "ms"),
    "concurrent",
    "1000 runs under one gateway: event-loop delay while starting",
    { from: "holdfast", nth: 1 },
  ),
  goal(
    "event-loop delay with 1,000 idle runs, p99",
    atMost(20, "ms"),
    "concurrent",
    "1000 runs under one gateway: event-loop delay while they run",
    { from: "holdfast", nth: 1 },
  ),
  goal(
    "event-loop delay with 1,000 runs stopping, p99",
    atMost(20, "ms"),
    "concurrent",
    "1000 runs under one gateway: event-loop delay while stopping",
    { from: "holdfast", nth: 1 },
  ),
  goal(
    "gateway CPU for an open idle page of the dashboard",
    atMost(2, "%"),
    "dashboard",
    "gateway CPU for an open idle page",
    OURS,
  ),
  goal(
    "first paint of the dashboard, 1,000 runs",
    atMost(1_000, "ms"),
    "dashboard",
    "first paint of the dashboard with 1000 runs",
    OURS,
  ),
  goal(
    "script memory of the dashboard, 1,000 runs",
    atMost(30, "MB"),
    "dashboard",
    "script memory of the dashboard with 1000 runs",
    OURS,
  ),
];

function goal(work, target, part, find, { from, nth = 0 }) {
  return { work, target, part, find, from, nth };
}

/**
 * Compares what was measured with the goals. `results`: by part, a list with the rows of each round. `range` is that of
 * all rounds.
 */
export function compareWithGoals(results) {
  return goals.map((each) => {
    const rounds = results[each.part] ?? [];
    const values = rounds.map((rows) => measuredValue(each, rows)).filter((value) => value !== null);
    return {
      work: each.work,
      goal: targetText(each.target),
      range: rangeText(values, each.target),
      verdict: verdictOf(values, each.target),
      part: each.part,
    };
  });
}

/** Goals that name a row or a column that their measured part did not print. */
export function goalsWithoutRow(results) {
  return goals.filter((each) =>
    (results[each.part] ?? []).some((rows) => measuredValue(each, rows) === null),
  );
}

/** The range of a figure that is no goal; null: its part was not measured. Throws if the part has no such row. */
export function rangeOfFigure(results, part, find, from, unit) {
  const rounds = results[part] ?? [];
  const values = rounds.map((rows) => measuredValue({ find, from, nth: 0 }, rows));
  if (values.includes(null)) throw new Error(`${part} printed no row "${find}…" with a figure in "${from}…"`);
  return values.length === 0 ? null : rangeText(values, { unit });
}

/** Null: the benchmark has no such row. */
export function measuredValue({ find, from, nth }, rows) {
  const row = rows.find(({ measured }) => measured.startsWith(find));
  if (row !== undefined && from === "difference") {
    const [ours, theirs] = Object.entries(row).flatMap(([name, cell]) =>
      /p50\/p99/.test(name) ? [parseFloat(cell)] : [],
    );
    return Number.isFinite(ours - theirs) ? ours - theirs : null;
  }
  const column = Object.keys(row ?? {}).find((name) => name !== "measured" && name.startsWith(from));
  if (column === undefined) return null;
  const numbers = String(row[column]).match(/\d+(\.\d+)?/g) ?? [];
  return numbers[nth] === undefined ? null : Number(numbers[nth]);
}

function targetText({ most, least, unit }) {
  return most === undefined ? `≥ ${withUnit(least, unit)}` : `≤ ${withUnit(most, unit)}`;
}

function rangeText(values, { unit }) {
  if (values.length === 0) return "-";
  const [low, high] = [Math.min(...values), Math.max(...values)].map((value) => withUnit(value, ""));
  return low === high ? withUnit(values[0], unit) : `${low} to ${withUnit(Math.max(...values), unit)}`;
}

function withUnit(value, unit) {
  const number = value.toLocaleString("en-US", { maximumFractionDigits: 3 });
  return unit === "×" || unit === "" || unit === "/s" ? `${number}${unit}` : `${number} ${unit}`;
}

/** How many rounds meet the goal. */
function verdictOf(values, { most, least }) {
  if (values.length === 0) return "not measured";
  const met = values.filter((value) => (most === undefined ? value >= least : value <= most)).length;
  if (met === values.length) return "met";
  return met === 0 ? "MISSED" : `met in ${met} of ${values.length}`;
}
