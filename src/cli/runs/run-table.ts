import type { RunRecord, RunStateName } from "../../model/run.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { NAME_LABEL } from "../../model/enums.js";
import type { KnownHosts } from "../client/store-hosts.js";
import { formatDuration } from "../../text/format-units.js";
import {
  type LeaseObserver,
  type OwnerWarning,
  ownerWarningText,
  runStatusText,
  statusTone,
} from "../print/run-status.js";
import { formatTable } from "../print/table.js";
import type { Palette } from "../print/colours-and-progress.js";

/** The options of `runs list`. */
export interface ListRunsRequest {
  readonly all?: true;
  readonly state?: RunStateName;
  readonly label?: Readonly<Record<string, string>>;
  readonly host?: string;
  readonly limit: number;
  readonly json?: true;
}

export interface ListedRuns {
  /** At most one run more than the limit, which shows that the list is not complete. */
  readonly found: readonly RunRecord[];
  readonly hosts: KnownHosts;
  /** Null: the state directory has no store yet. */
  readonly observer: LeaseObserver | null;
}

export function runTable(
  records: readonly RunRecord[],
  now: number,
  width: number | null,
  palette: Palette,
  warningOf: WarningOf | null = null,
  hosts: KnownHosts | null = null,
): string[] {
  const several = hosts?.hasSeveral === true;
  const named = records.some(({ labels }) => labels[NAME_LABEL] !== undefined);
  const status = (record: RunRecord): string => {
    const warning = warningOf?.(record) ?? null;
    return warning === null
      ? runStatusText(record)
      : `${runStatusText(record)}, ${ownerWarningText(warning)}`;
  };
  const rows = records.map((record) => [
    record.runId,
    ...(named ? [sanitizeLine(record.labels[NAME_LABEL] ?? "")] : []),
    ...(several ? [hosts.displayName(record.hostId)] : []),
    status(record),
    `${formatDuration(Math.max(0, now - record.createdAt))} ago`,
    record.startedAt === null ? "-" : formatDuration(Math.max(0, (record.endedAt ?? now) - record.startedAt)),
    record.state === "exited" ? "-" : String(record.root?.pid ?? "-"),
    sanitizeLine(record.command),
  ]);
  const columns = [
    "RUN",
    ...(named ? [{ name: "NAME", optional: 5 }] : []),
    ...(several ? [{ name: "HOST", optional: 4 }] : []),
    "STATUS",
    { name: "CREATED", optional: 2 },
    { name: "TIME", optional: 3 },
    { name: "PID", optional: 1 },
    "COMMAND",
  ];
  const [head, ...lines] = formatTable(columns, rows, width);
  const colours = { good: palette.green, bad: palette.red, live: palette.cyan, ended: palette.yellow };
  return [
    palette.bold(head ?? ""),
    ...lines.map((line, at) => {
      const record = records[at];
      // After the columns are aligned: escape sequences have no width.
      return record === undefined
        ? line
        : line.replace(`  ${status(record)}`, (text) => colours[statusTone(record)](text));
    }),
  ];
}

type WarningOf = (record: RunRecord) => OwnerWarning | null;
