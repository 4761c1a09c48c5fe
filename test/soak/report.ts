import { readFileSync, writeFileSync } from "node:fs";
import { type Origin, readProgress } from "./progress.js";
import type { SimulationState } from "./simulate/simulate.js";
import { injectionsOf, PROBLEM_KINDS, type Tally } from "./tally.js";
import { WORK_KINDS } from "./works/work.js";

const HEADINGS: Readonly<Record<(typeof PROBLEM_KINDS)[number], string>> = {
  survivors: "survivors",
  strangers: "strangers signalled",
  ends: "lost, doubled or wrong ends",
  notifications: "lost or doubled notifications",
  bytes: "wrong bytes",
  records: "without a record",
  reading: "changed by reading",
  stops: "stops that failed",
  crashes: "crashes",
  stuck: "no end in time",
};

/** The table of injections: a row for each fault, with the works that met it and what was found. */
export function formatTally({ faults }: Tally): string {
  const head = ["fault", "injections", ...WORK_KINDS, ...PROBLEM_KINDS.map((kind) => HEADINGS[kind])];
  const rows = Object.entries(faults)
    .toSorted(([one], [other]) => one.localeCompare(other))
    .map(([name, { injections, met, problems }]) => [
      name,
      ...[injections, ...WORK_KINDS.map((kind) => met[kind]), ...PROBLEM_KINDS.map((kind) => problems[kind])],
    ]);
  const sums = head.slice(1).map((_, at) => rows.reduce((sum, row) => sum + Number(row[at + 1]), 0));
  return markdownTable(head, [...rows, ["**all**", ...sums]]);
}

export function markdownTable(
  head: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): string {
  const line = (cells: readonly (string | number)[]): string => `| ${cells.join(" | ")} |`;
  const rule = head.map((_, at) => (at === 0 ? "---" : "---:"));
  return [line(head), line(rule), ...rows.map(line)].join("\n");
}

const PAGE = "docs/reliability.md";

/** Writes the tables of all saved soaks between the markers of the page. */
export function writePage(): void {
  const faults = readProgress<{ readonly tally: Tally }>("faults");
  const simulation = readProgress<SimulationState>("simulation");
  let page = readFileSync(PAGE, "utf8");
  if (faults !== null) page = replaceSection(page, "faults", faultSection(faults.origin, faults.state.tally));
  if (simulation !== null)
    page = replaceSection(page, "simulation", simulationSection(simulation.origin, simulation.state));
  writeFileSync(PAGE, page);
}

function faultSection(origin: Origin, tally: Tally): string {
  const { works, stops, notifications, repeats, bytes, unproven, worlds, seconds } = tally;
  const facts = [
    `${injectionsOf(tally)} injections into ${worlds} gateways in ${Math.round(seconds / 60)} minutes`,
    `${works} works, of which ${stops} were stopped while a fault was in force`,
    `${Math.round(bytes / 1_048_576)} MiB of output compared`,
    `${notifications} notifications, ${repeats} of them repeated and marked`,
    `${unproven} runs whose record says \`lost\`, \`unproven\``,
  ];
  return `${describeOrigin(origin)} ${facts.join("; ")}.\n\n${formatTally(tally)}`;
}

function simulationSection(origin: Origin, { counts, failures, seconds }: SimulationState): string {
  const rows = Object.entries(counts).map(([name, count]) => [name, count]);
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const table = markdownTable(["variant", "schedules"], [...rows, ["**all**", all]]);
  return `${describeOrigin(origin)} ${Math.round(seconds / 60)} minutes, ${failures.length} schedules that break an invariant.\n\n${table}`;
}

function describeOrigin({ seed, command, commit, startedAt, updatedAt }: Origin): string {
  return `From ${startedAt.slice(0, 10)} to ${updatedAt.slice(0, 10)}, begun at commit ${commit} with seed ${seed} by \`${command}\`:`;
}

function replaceSection(page: string, name: string, content: string): string {
  const [begin, end] = [`<!-- soak: ${name} -->`, `<!-- end of soak: ${name} -->`];
  const [before, rest] = page.split(begin);
  const after = rest?.split(end)[1];
  if (before === undefined || after === undefined) throw new Error(`${PAGE} has no section ${begin}`);
  return `${before}${begin}\n\n${content}\n\n${end}${after}`;
}
