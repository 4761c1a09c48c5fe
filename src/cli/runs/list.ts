import { isatty } from "node:tty";
import { sanitizeLine } from "../../output/sanitize.js";
import type { RunRecord, RunStateName } from "../../store/run-record.js";
import { observeMachineIdentity } from "../../store/machine.js";
import type { RunView } from "../gateway/session-view.js";
import { resolveHome } from "../../store/state-directory.js";
import { say } from "../complain.js";
import { formatDuration } from "../duration.js";
import { paletteFor, type Palette } from "../palette.js";
import { print } from "./print.js";
import { openStoreForReading } from "./read-store.js";
import { careOf, moodOf, statusOf } from "./status.js";
import { table } from "./table.js";

export interface ListRequest {
  readonly states: readonly RunStateName[];
  readonly labels: Readonly<Record<string, string>>;
  readonly hidden: boolean;
  readonly limit: number;
  readonly json: boolean;
}

export async function listRuns({ states, labels, hidden, limit, json }: ListRequest): Promise<number> {
  await using store = await openStoreForReading();
  // One more than shown, to know whether that was all.
  const found =
    (await store?.listRuns({ states, labels, limit: limit + 1, ...(hidden ? {} : { hidden: false }) })) ?? [];
  const shown = found.slice(0, limit);
  if (json) {
    print(`${JSON.stringify(shown, null, 2)}\n`);
    return 0;
  }
  if (shown.length > 0) {
    const care = store === null ? null : await careFor(store);
    print(`${listLines(shown, Date.now(), terminalWidth(), paletteFor(1), care).join("\n")}\n`);
  } else
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
  care: Care | null = null,
): string[] {
  const status = (record: RunRecord): string =>
    [statusOf(record), care?.(record) ?? null].filter((word) => word !== null).join(", ");
  const rows = records.map((record) => [
    record.runId,
    status(record),
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
        : line.replace(`  ${status(record)}`, (text) => colours[moodOf(record)](text));
    }),
  ];
}

type Care = (record: RunRecord) => string | null;

async function careFor(store: RunView): Promise<Care> {
  const here = await observeMachineIdentity(resolveHome());
  const now = await store.now();
  return (record) => careOf(record, here, now);
}

function terminalWidth(): number | null {
  return isatty(1) ? process.stdout.columns : null;
}
