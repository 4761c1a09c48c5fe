import { isatty } from "node:tty";
import { sanitizeLine } from "../../output/sanitize.js";
import type { RunRecord, RunStateName } from "../../store/run-record.js";
import { say } from "../complain.js";
import { formatDuration } from "../duration.js";
import { paletteFor, type Palette } from "../palette.js";
import { print } from "./print.js";
import { openStoreForReading } from "./read-store.js";
import { moodOf, statusOf } from "./status.js";
import { table } from "./table.js";

export interface ListRequest {
  readonly states: readonly RunStateName[];
  readonly labels: Readonly<Record<string, string>>;
  readonly limit: number;
  readonly json: boolean;
}

export async function listRuns({ states, labels, limit, json }: ListRequest): Promise<number> {
  await using store = await openStoreForReading();
  // One more than shown, to know whether that was all.
  const found = (await store?.listRuns({ states, labels, limit: limit + 1 })) ?? [];
  const shown = found.slice(0, limit);
  if (json) {
    print(`${JSON.stringify(shown, null, 2)}\n`);
    return 0;
  }
  if (shown.length > 0) print(`${listLines(shown, Date.now(), terminalWidth(), paletteFor(1)).join("\n")}\n`);
  else
    say(
      states.includes("exited")
        ? "no such runs are recorded"
        : "nothing is running; --all shows what has ended",
      "dim",
    );
  if (found.length > limit) say(`there are more; --limit shows them`, "dim");
  return 0;
}

export function listLines(
  records: readonly RunRecord[],
  now: number,
  width: number | null,
  palette: Palette,
): string[] {
  const rows = records.map((record) => [
    record.runId,
    statusOf(record),
    `${formatDuration(Math.max(0, now - record.createdAt))} ago`,
    record.startedAt === null ? "-" : formatDuration(Math.max(0, (record.endedAt ?? now) - record.startedAt)),
    record.state === "exited" ? "-" : String(record.root?.pid ?? "-"),
    sanitizeLine(record.command),
  ]);
  const [head, ...lines] = table([["RUN", "STATUS", "CREATED", "TIME", "PID", "COMMAND"], ...rows], width);
  const colours = { good: palette.green, bad: palette.red, live: palette.cyan, ended: palette.yellow };
  return [
    palette.bold(head ?? ""),
    ...lines.map((line, at) => {
      const record = records[at];
      // Only the status, once the columns stand: escape sequences have no width.
      return record === undefined
        ? line
        : line.replace(`  ${statusOf(record)}`, (text) => colours[moodOf(record)](text));
    }),
  ];
}

function terminalWidth(): number | null {
  return isatty(1) ? process.stdout.columns : null;
}
