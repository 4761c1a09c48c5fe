import { setTimeout } from "node:timers/promises";
import { isatty } from "node:tty";
import { HIDDEN_STATE, isComparable } from "../../anchor/inspect/liveness.js";
import type { LiveProcesses } from "../../anchor/inspect/processes.js";
import { isSameMachine, observeMachineIdentity } from "../../home/machine-identity.js";
import { resolveHome } from "../../home/state-directory.js";
import { OPEN_RUN_STATES, type RunKind, type RunRecord } from "../../model/run.js";
import { listLiveProcesses, type RunProcesses } from "../../supervisor/inspect/live-processes.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { hostFilter, type KnownHosts, readKnownHosts } from "../client/known-hosts.js";
import { type LocalState, openLocalState } from "../client/local-state.js";
import { openRunView } from "../client/run-view.js";
import type { RunView } from "../client/session-run-view.js";
import { formatDuration, formatSize } from "../options/units.js";
import { paletteFor } from "../print/palette.js";
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
import { notice } from "../print/stderr.js";
import { print, printOrThrow, toJson } from "../print/stdout.js";
import { formatTable } from "../print/table.js";

export interface PsRequest {
  /** Left out: every kind. */
  readonly kind?: RunKind;
  readonly labels: Readonly<Record<string, string>>;
  /** Null: every host. */
  readonly host: string | null;
  readonly hidden: boolean;
  readonly watch: boolean;
  readonly json: boolean;
}

/** One open run, with the processes that live in it. */
export interface PsRow {
  readonly record: RunRecord;
  readonly hostName: string;
  /** Null: it is looked after. */
  readonly care: OwnerWarning["kind"] | null;
  readonly silentMs: OwnerWarning["silentMs"];
  /** Null: a task, or no port to judge it by. */
  readonly health: ServiceHealth | null;
  /** TCP ports that a service listens on. */
  readonly ports: readonly number[];
  readonly processes: LiveProcesses;
  /** Processes that carry its marker and are not verified. */
  readonly claims: RunProcesses["claims"];
  /** Why there may be more processes than these; null: there are none. */
  readonly unknown: RunProcesses["unknown"];
  /** Its processes cannot be seen from here: how many there are, and what they use, is not known. */
  readonly elsewhere: boolean;
}

const REFRESH_MS = 2_000;

/** Open runs with their live processes. Reads the store and asks the anchor binary; starts and changes nothing. */
export async function showPs(request: PsRequest): Promise<number> {
  const { watch, json } = request;
  await using localState = await openLocalState();
  await using found = await openRunView();
  const store = found.view;
  const tell = watch ? printOrThrow : print;
  for (;;) {
    const hosts = await readKnownHosts(store);
    const shown = store === null ? [] : await readRows(localState, store, hosts, request);
    if (json) tell(toJson(shown, watch ? undefined : 2));
    else {
      // Home and clear below: what is shown again does not scroll away.
      if (watch && isatty(1)) tell("\x1b[H\x1b[2J");
      if (shown.length > 0)
        tell(`${psTable(shown, Date.now(), isatty(1) ? process.stdout.columns : null, hosts).join("\n")}\n`);
      else notice("nothing is running", "dim");
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
  { kind, labels, host, hidden }: PsRequest,
): Promise<readonly PsRow[]> {
  const open = await store.listRuns({
    states: OPEN_RUN_STATES,
    labels,
    ...hostFilter(hosts, host),
    ...(hidden ? {} : { hidden: false }),
  });
  const records = open.filter((record) => kind === undefined || record.kind === kind);
  const here = localState?.host.machine ?? (await observeMachineIdentity(resolveHome()));
  const view = await leaseObserver(store, here);
  const ports = records.some(({ service }) => service !== null);
  // Without a state directory there can be runs of other hosts, and none of this one.
  const trees =
    localState === null ? null : await listLiveProcesses(localState.host, records, open, { ports });
  return records.map((record) => {
    const { processes, claims, unknown } = trees?.get(record.runId) ?? NO_PROCESSES;
    const listens = record.service === null ? [] : listeningPorts(processes);
    const health = processes.length === 0 ? null : serviceHealth(record, listens);
    const care = ownerWarning(record, view);
    return {
      record,
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
  const host = (name: string): readonly string[] => (hosts?.hasSeveral === true ? [name] : []);
  const rows = shown.flatMap(({ record, care, silentMs, ports, processes, claims, unknown, elsewhere }) => [
    [
      record.runId,
      ...host(hosts?.displayName(record.hostId) ?? ""),
      [
        runStatusText(record),
        processes.length === 0 ? null : serviceHealthText(record, ports),
        care === null ? null : ownerWarningText({ kind: care, silentMs }),
      ]
        .filter((word) => word !== null)
        .join(", "),
      formatDuration(Math.max(0, now - (record.startedAt ?? record.createdAt))),
      ...(elsewhere
        ? ["-", "-", "-"]
        : [
            formatDuration(sum(processes.map(({ cpuMs }) => cpuMs))),
            formatSize(sum(processes.map(({ rssKb }) => rssKb)) * 1024),
            `${processes.length}${unknown === null ? "" : "+?"}`,
          ]),
      "",
      sanitizeLine(record.command),
    ],
    ...treeRows(processes).map(([run = "", ...rest]) => [run, ...host(""), ...rest]),
    ...noteLines(claims, elsewhere ? null : unknown).map((note) => [
      "",
      ...host(""),
      "",
      "",
      "",
      "",
      "",
      "",
      note,
    ]),
  ]);
  const [head, ...lines] = formatTable(
    [["RUN", ...host("HOST"), "STATUS", "TIME", "CPU", "MEMORY", "PROCS", "PID", "COMMAND"], ...rows],
    width,
  );
  return [paletteFor(1).bold(head ?? ""), ...lines];
}

/** What is said besides the processes that are verified. */
function noteLines(claims: PsRow["claims"], unknown: string | null): string[] {
  return [
    ...claims.map(
      ({ identity: { pid }, command }) =>
        `? ${pid} ${sanitizeLine(command)} carries its marker; not verified`,
    ),
    ...(unknown === null ? [] : [`? ${sanitizeLine(unknown)}`]),
  ];
}

/** Its processes, children under their parents. */
function treeRows(processes: PsRow["processes"]): string[][] {
  const top = 0;
  const pids = new Set(processes.map(({ identity }) => identity.pid));
  const children = new Map<number, PsRow["processes"][number][]>();
  for (const each of processes) {
    const parent = pids.has(each.parentPid) ? each.parentPid : top;
    children.set(parent, [...(children.get(parent) ?? []), each]);
  }
  const lines: string[][] = [];
  const below = (parent: number, indent: string): void => {
    const nodes = children.get(parent) ?? [];
    children.delete(parent);
    for (const [at, { identity, cpuMs, rssKb, command, state }] of nodes.entries()) {
      const last = at === nodes.length - 1;
      const hidden = state === HIDDEN_STATE;
      lines.push([
        "",
        "",
        "",
        hidden ? "-" : formatDuration(cpuMs),
        hidden ? "-" : formatSize(rssKb * 1024),
        "",
        String(identity.pid),
        `${indent}${last ? "└─" : "├─"} ${hidden ? "(hidden)" : sanitizeLine(command)}`,
      ]);
      below(identity.pid, `${indent}${last ? "   " : "│  "}`);
    }
  };
  below(top, "");
  return lines;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
