import { setTimeout } from "node:timers/promises";
import { isatty } from "node:tty";
import { HIDDEN_STATE, isComparable, type LiveProcesses } from "../../anchor/inspect/processes.js";
import { isSameMachine, observeMachineIdentity } from "../../home/machine-identity.js";
import { resolveHome } from "../../home/state-directory.js";
import { OPEN_RUN_STATES, type RunKind, type RunRecord } from "../../model/run.js";
import { listLiveProcesses, type RunProcesses } from "../../supervisor/inspect/live-processes.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { NAME_LABEL } from "../../model/enums.js";
import { type LocalState, openLocalState } from "../client/resolve-run.js";
import {
  hostFilter,
  type KnownHosts,
  openRunView,
  readKnownHosts,
  type RunView,
} from "../client/run-view.js";
import { formatDuration, formatSize } from "../options/units.js";
import {
  leaseObserver,
  listeningPorts,
  ownerWarning,
  type OwnerWarning,
  ownerWarningText,
  runStatusText,
  serviceHealth,
  type ServiceHealth,
  serviceHealthText,
} from "../print/run-status.js";
import { notice } from "../print/errors-and-notices.js";
import { print, printOrThrow, toJson } from "../print/write-output.js";
import { formatTable, terminalWidth } from "../print/table.js";
import { paletteFor } from "../print/terminal.js";
import { orderAsTree } from "./processes.js";

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
  /** It runs on another host, or cannot be inspected from here: its processes are not known. */
  readonly elsewhere: boolean;
}

const REFRESH_MS = 2_000;

/** Lists runs with their live processes. Reads the store and runs the anchor binary; changes nothing. */
export async function showPs(request: PsRequest): Promise<number> {
  const { all, watch = false, json } = request;
  await using localState = await openLocalState();
  await using found = await openRunView();
  const store = found.view;
  const write = watch ? printOrThrow : print;
  for (;;) {
    const hosts = await readKnownHosts(store);
    const shown = store === null ? [] : await readRows(localState, store, hosts, request);
    if (json === true) write(toJson(shown, watch ? undefined : 2));
    else {
      // Cursor home and clear: a refresh replaces the screen.
      if (watch && isatty(1)) write("\x1b[H\x1b[2J");
      if (shown.length > 0) write(`${psTable(shown, Date.now(), terminalWidth(), hosts).join("\n")}\n`);
      else notice(all === true ? "there are no runs" : "no run is open; --all lists ended runs", "dim");
    }
    if (!watch) {
      const { printRunsWithoutState } = await import("./without-state.js");
      await printRunsWithoutState();
      return 0;
    }
    await setTimeout(REFRESH_MS);
  }
}

async function readRows(
  localState: LocalState | null,
  store: RunView,
  hosts: KnownHosts,
  { kind, label = {}, host, all }: PsRequest,
): Promise<readonly PsRow[]> {
  const listed = await store.listRuns({
    ...(all === true ? {} : { states: OPEN_RUN_STATES, hidden: false }),
    labels: label,
    ...hostFilter(hosts, host),
  });
  const open = listed.filter(({ state }) => state !== "exited");
  const records = listed.filter((record) => kind === undefined || record.kind === kind);
  const here = localState?.host.machine ?? (await observeMachineIdentity(resolveHome()));
  const view = await leaseObserver(store, here);
  const openRecords = records.filter(({ state }) => state !== "exited");
  const ports = records.some(({ service }) => service !== null);
  // Without a state directory, every run is of another host.
  const trees =
    localState === null ? null : await listLiveProcesses(localState.host, openRecords, open, { ports });
  return records.map((record) => {
    const { processes, claims, unknown } = trees?.get(record.runId) ?? NO_PROCESSES;
    const listens = record.service === null ? [] : listeningPorts(processes);
    const health = processes.length === 0 ? null : serviceHealth(record, listens);
    const care = ownerWarning(record, view);
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
        !isSameMachine(record, here) ||
        (record.anchor !== null && !isComparable(record.anchor, record, here)),
    };
  });
}

const NO_PROCESSES = { processes: [], claims: [], unknown: null } as const;

export function psTable(
  shown: readonly PsRow[],
  now: number,
  width: number | null,
  hosts: KnownHosts | null = null,
): string[] {
  const several = hosts?.hasSeveral === true;
  const named = shown.some(({ labels }) => labels[NAME_LABEL] !== undefined);
  /** Cells for the columns that not every table has. */
  const optionalCells = (name: string, host: string): string[] => [
    ...(named ? [name] : []),
    ...(several ? [host] : []),
  ];
  const rows = shown.flatMap((run) => [
    [
      run.runId,
      ...optionalCells(sanitizeLine(run.labels[NAME_LABEL] ?? ""), hosts?.displayName(run.hostId) ?? ""),
      psStatus(run),
      formatDuration(Math.max(0, (run.endedAt ?? now) - (run.startedAt ?? run.createdAt))),
      ...usageCells(run),
      "",
      sanitizeLine(run.command),
    ],
    ...treeRows(run.processes).map((cells) => ["", ...optionalCells("", ""), ...cells]),
    ...noteLines(run.claims, run.elsewhere ? null : run.unknown).map((note) => [
      "",
      ...optionalCells("", ""),
      ...["", "", "", "", "", ""],
      note,
    ]),
  ]);
  const columns = [
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

/** CPU time, memory and number of processes; of an ended run, what it used in all. */
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

/** Processes that are not verified, and why there may be more. */
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
