import { isatty } from "node:tty";
import type { LiveProcesses } from "../../anchor/inspect/processes.js";
import { NAME_LABEL } from "../../model/enums.js";
import { HIDDEN_STATE, isComparable, isSameMachine } from "../../model/process.js";
import type { RunKind, RunRecord } from "../../model/run.js";
import type { RunProcesses } from "../../supervisor/inspect/live-processes.js";
import { sanitizeLine } from "../../text/sanitize.js";
import type { KnownHosts } from "../client/store-hosts.js";
import { formatDuration, formatSize } from "../../text/format-units.js";
import { notice } from "../print/errors-and-notices.js";
import {
  type LeaseObserver,
  listeningPorts,
  ownerWarning,
  type OwnerWarning,
  ownerWarningText,
  runStatusText,
  serviceHealth,
  type ServiceHealth,
  serviceHealthText,
} from "../print/run-status.js";
import { formatTable, terminalWidth } from "../print/table.js";
import { paletteFor } from "../print/colours-and-progress.js";
import { print, printOrThrow, toJson } from "../print/write-output.js";
import { orderAsTree } from "../print/process-tree.js";

/** The options of `ps`. */
export interface PsRequest {
  readonly kind?: RunKind;
  readonly label?: Readonly<Record<string, string>>;
  readonly host?: string;
  readonly all?: true;
  readonly watch?: true;
  readonly json?: boolean;
}

/** A record of a run with what is known about its live processes. */
export interface PsRow extends RunRecord {
  readonly hostName: string;
  /** Null: its owner is alive. */
  readonly care: OwnerWarning["kind"] | null;
  readonly silentMs: OwnerWarning["silentMs"];
  /** Null: it is a task, or a service without a port. */
  readonly health: ServiceHealth | null;
  /** TCP ports that its processes listen on. */
  readonly ports: readonly number[];
  readonly processes: LiveProcesses;
  /** Processes that have its environment marker and are not verified. */
  readonly claims: RunProcesses["claims"];
  /** Why there may be more processes; null: these are all. */
  readonly unknown: RunProcesses["unknown"];
  /** True if the run's processes are unknown: it runs on another host, or cannot be inspected from here. */
  readonly elsewhere: boolean;
}

/** The records that `ps` shows, with what is known about their processes. */
export interface PsSource {
  readonly records: readonly RunRecord[];
  readonly hosts: KnownHosts;
  /** Null: the state directory has no store yet. */
  readonly observer: LeaseObserver | null;
  readonly processesOf: (runId: string) => Pick<RunProcesses, "processes" | "claims" | "unknown"> | undefined;
}

/** Prints the result of one reading; `--watch` reads repeatedly. */
export type PsPrinter = (request: PsRequest, source: PsSource) => void;

/** Prints the runs of `kind`. Throws WriteFailed when a reader of --watch is gone. */
export function printPs(request: PsRequest, source: PsSource): void {
  const { kind, all, json } = request;
  const shown = psRows(source, (record) => kind === undefined || record.kind === kind);
  if (json === true) printPsJson(request, shown);
  else if (shown.length > 0) printPsTable(request, shown, source.hosts);
  else {
    clearScreen(request);
    notice(all === true ? "there are no runs" : "no run is open; --all lists ended runs", "dim");
  }
}

export function psRows(source: PsSource, isWanted: (record: RunRecord) => boolean): PsRow[] {
  const { records, observer } = source;
  return observer === null ? [] : records.filter(isWanted).map((record) => toRow(record, source, observer));
}

export function printPsJson({ watch }: PsRequest, shown: readonly PsRow[]): void {
  const write = watch === true ? printOrThrow : print;
  write(toJson(shown, watch === true ? undefined : 2));
}

export function printPsTable(
  request: PsRequest,
  shown: readonly PsRow[],
  hosts: KnownHosts,
  first: readonly PsColumn[] = [],
): void {
  clearScreen(request);
  const write = request.watch === true ? printOrThrow : print;
  write(`${psTable(shown, Date.now(), terminalWidth(), hosts, first).join("\n")}\n`);
}

/** Cursor home and clear: a refresh replaces the screen. */
export function clearScreen({ watch }: PsRequest): void {
  if (watch === true && isatty(1)) printOrThrow("\x1b[H\x1b[2J");
}

function toRow(record: RunRecord, { hosts, processesOf }: PsSource, observer: LeaseObserver): PsRow {
  const { processes, claims, unknown } = processesOf(record.runId) ?? NO_PROCESSES;
  const listens = record.service === null ? [] : listeningPorts(processes);
  const health = processes.length === 0 ? null : serviceHealth(record, listens);
  const care = ownerWarning(record, observer);
  const { here } = observer;
  return {
    ...record,
    hostName: hosts.nameOf(record.hostId),
    care: care?.kind ?? null,
    silentMs: care?.silentMs ?? null,
    health,
    ports: listens,
    processes,
    claims,
    unknown,
    elsewhere:
      !isSameMachine(record, here) || (record.anchor !== null && !isComparable(record.anchor, record, here)),
  };
}

const NO_PROCESSES = { processes: [], claims: [], unknown: null } as const;

/** A column of a run, left of the others. */
interface PsColumn {
  readonly name: string;
  readonly cellOf: (run: PsRow) => string;
}

export function psTable(
  shown: readonly PsRow[],
  now: number,
  width: number | null,
  hosts: KnownHosts | null = null,
  first: readonly PsColumn[] = [],
): string[] {
  const several = hosts?.hasSeveral === true;
  const named = shown.some(({ labels }) => labels[NAME_LABEL] !== undefined);
  /** Cells for the columns that not every table has. */
  const optionalCells = (name: string, host: string): string[] => [
    ...(named ? [name] : []),
    ...(several ? [host] : []),
  ];
  const noCells = [...first.map(() => ""), ""];
  const rows = shown.flatMap((run) => [
    [
      ...first.map(({ cellOf }) => sanitizeLine(cellOf(run))),
      run.runId,
      ...optionalCells(sanitizeLine(run.labels[NAME_LABEL] ?? ""), hosts?.displayName(run.hostId) ?? ""),
      psStatus(run),
      formatDuration(Math.max(0, (run.endedAt ?? now) - (run.startedAt ?? run.createdAt))),
      ...usageCells(run),
      "",
      sanitizeLine(run.command),
    ],
    ...treeRows(run.processes).map((cells) => [...noCells, ...optionalCells("", ""), ...cells]),
    ...noteLines(run.claims, run.elsewhere ? null : run.unknown).map((note) => [
      ...noCells,
      ...optionalCells("", ""),
      ...["", "", "", "", "", ""],
      note,
    ]),
  ]);
  const columns = [
    ...first.map(({ name }) => name),
    "RUN",
    ...(named ? [{ name: "NAME", optional: 5 }] : []),
    ...(several ? [{ name: "HOST", optional: 4 }] : []),
    "STATUS",
    { name: "TIME", optional: 3 },
    { name: "CPU", optional: 1 },
    { name: "MEMORY", optional: 1 },
    { name: "PROCS", optional: 2 },
    { name: "PID", optional: 4 },
    "COMMAND",
  ];
  const [head, ...lines] = formatTable(columns, rows, width);
  return [paletteFor(1).bold(head ?? ""), ...lines];
}

function psStatus(run: PsRow): string {
  const { care, silentMs, ports, processes } = run;
  return [
    runStatusText(run),
    processes.length === 0 ? null : serviceHealthText(run, ports),
    care === null ? null : ownerWarningText({ kind: care, silentMs }),
  ]
    .filter((word) => word !== null)
    .join(", ");
}

/** CPU time, memory and number of processes; for an ended run, its total CPU time and its peak of memory. */
function usageCells({ state, usage, processes, unknown, elsewhere }: PsRow): string[] {
  if (state === "exited")
    return usage === null
      ? ["-", "-", "-"]
      : [formatDuration(usage.cpuMs), formatSize(usage.peakKb * 1024), "-"];
  if (elsewhere) return ["-", "-", "-"];
  return [
    formatDuration(sum(processes.map(({ cpuMs }) => cpuMs))),
    formatSize(sum(processes.map(({ rssKb }) => rssKb)) * 1024),
    `${processes.length}${unknown === null ? "" : "+?"}`,
  ];
}

/** Lines about processes that are not verified, and about why there may be more. */
function noteLines(claims: PsRow["claims"], unknown: string | null): string[] {
  return [
    ...claims.map(
      ({ identity: { pid }, command }) =>
        `? ${pid} ${sanitizeLine(command)} has the marker of this run; not verified`,
    ),
    ...(unknown === null ? [] : [`? ${sanitizeLine(unknown)}`]),
  ];
}

/** Cells of its processes from STATUS on, children below their parents. */
function treeRows(processes: PsRow["processes"]): string[][] {
  return orderAsTree(processes).map(({ process, branches }) => {
    const { identity, cpuMs, rssKb, command, state } = process;
    const hidden = state === HIDDEN_STATE;
    return [
      ...["", "", hidden ? "-" : formatDuration(cpuMs), hidden ? "-" : formatSize(rssKb * 1024), ""],
      String(identity.pid),
      `${branches} ${hidden ? "(hidden)" : sanitizeLine(command)}`,
    ];
  });
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
