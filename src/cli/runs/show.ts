import type { ProcessEvidence } from "../../anchor/host-interface.js";
import { RunNotFound } from "../../errors.js";
import { observeMachineIdentity } from "../../home/machine-identity.js";
import { resolveHome } from "../../home/state-directory.js";
import { describeSurvivor, HIDDEN_STATE, type ProcessIdentity } from "../../model/process.js";
import type { RunEvent } from "../../model/run-event.js";
import { OPEN_RUN_STATES, type RunRecord, type RunUsage } from "../../model/run.js";
import type { RunProcesses } from "../../supervisor/inspect/live-processes.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { resolveRunRecord } from "../client/resolve-run.js";
import { readKnownHosts } from "../client/store-hosts.js";
import { openRunView, type RunView } from "../client/read-runs.js";
import { limitsText } from "../options/parsers.js";
import { formatDuration, formatSize } from "../../text/format-units.js";
import {
  leaseObserver,
  listeningPorts,
  ownerWarning,
  type OwnerWarning,
  ownerWarningText,
  runEventText,
  runStatusText,
  serviceHealthText,
  statusTone,
  statusText,
} from "../print/run-status.js";
import { type DisplayField, fieldLines, formatTime } from "../print/fields.js";
import { print, toJson } from "../print/write-output.js";
import { type Palette, paletteFor } from "../print/colours-and-progress.js";
import { inspectRun, processTree } from "./processes.js";

/** The host, if there are several, and a warning about the owner. */
interface DisplayContext {
  readonly host: string | null;
  readonly ownerWarning: OwnerWarning | null;
}

/** Everything about a run as text. */
export function describeRun(
  record: RunRecord,
  live: RunProcesses,
  events: readonly RunEvent[],
  now: number,
  palette: Palette,
  context: DisplayContext = { host: null, ownerWarning: null },
): string[] {
  const colours = { good: palette.green, bad: palette.red, live: palette.cyan, ended: palette.yellow };
  const section = (title: string, lines: readonly string[]): string[] =>
    lines.length === 0 ? [] : ["", palette.bold(title), ...lines.map((line) => `  ${line}`)];
  const status =
    context.ownerWarning === null
      ? runStatusText(record)
      : `${runStatusText(record)}, ${ownerWarningText(context.ownerWarning)}`;
  return [
    `${palette.bold(record.runId)}  ${colours[statusTone(record)](status)}  ${sanitizeLine(record.command)}`,
    ...section("run", fieldLines(runFields(record, live, now))),
    ...section("exit", fieldLines(exitFields(record))),
    ...section("ownership", fieldLines(ownershipFields(record, live, context.host))),
    ...section("processes", processLines(record, live)),
    ...section(`leftovers (${record.residueCount})`, residueLines(record)),
    ...section("events", eventLines(events)),
  ];
}

function runFields(record: RunRecord, live: RunProcesses, now: number): readonly DisplayField[] {
  const { startedAt, endedAt, lastOutputAt, deadlines, policy, usage } = record;
  const labels = Object.entries(record.labels).map(([key, value]) => `${key}=${value}`);
  return [
    ["cwd", record.cwd === "" ? null : record.cwd],
    ["kind", `${record.kind}, ${record.io}`],
    ["service", serviceText(record, live)],
    ["labels", labels.length === 0 ? null : labels.join(" ")],
    ["session", record.sessionKey],
    ["agent", record.agentId],
    ["backend", record.backendId],
    ["created", formatTime(record.createdAt)],
    ["started", startedAt === null ? null : formatTime(startedAt)],
    ["last output", lastOutputAt === null ? null : formatTime(lastOutputAt)],
    ["ended", endedAt === null ? null : formatTime(endedAt)],
    ["took", startedAt === null ? null : formatDuration(Math.max(0, (endedAt ?? now) - startedAt))],
    ["timeout", deadlines.overallMs === null ? null : formatDuration(deadlines.overallMs)],
    ["no-output timeout", deadlines.noOutputMs === null ? null : formatDuration(deadlines.noOutputMs)],
    ["policy", `grace ${formatDuration(policy.graceMs)}, on escape ${policy.onEscape}`],
    ["limits", limitsText(record.limits)],
    ["usage", usage === null ? null : usageText(usage)],
  ];
}

function serviceText(record: RunRecord, { processes }: RunProcesses): string | null {
  const { service } = record;
  if (service === null) return null;
  const parts = [
    service.port === null ? null : `port ${service.port}`,
    service.readyAt === null ? null : `first ready ${formatTime(service.readyAt)}`,
    processes.length > 0 ? serviceHealthText(record, listeningPorts(processes)) : null,
  ].filter((part) => part !== null);
  return parts.length === 0 ? null : parts.join("; ");
}

/** The peak of a cgroup is that of the whole run; otherwise that of one process. */
function usageText({ cpuMs, peakKb, processes, peakTasks, source }: RunUsage): string {
  const whose = source.memory !== "reaped" ? "at its peak" : "in its largest process";
  const tasks = peakTasks === null ? "" : `, at most ${peakTasks} at one time with threads`;
  return `${formatDuration(cpuMs)} of CPU, ${formatSize(peakKb * 1024)} ${whose}, processes seen: ${processes}${tasks}`;
}

export function exitFields({ exit, emptiness }: RunRecord): readonly DisplayField[] {
  if (exit === null) return [];
  const status = statusText(exit);
  return [
    ["reason", exit.reason],
    ["actor", exit.actor === "" ? null : exit.actor],
    ["status", status === null ? "not known" : `${status} (from ${exit.source})`],
    ["detail", exit.detail],
    ["limit hit", exit.limitHit],
    ["emptiness", emptiness],
  ];
}

function ownershipFields(
  record: RunRecord,
  live: RunProcesses,
  host: string | null,
): readonly DisplayField[] {
  const { boundary, root, anchor } = record;
  return [
    ["tier", record.tier],
    ["note", boundary?.note ?? null],
    ["owner", `${record.ownerInstanceId || "none"}, epoch ${record.leaseEpoch}`],
    ["imported", record.imported === null ? null : importedText(record.imported)],
    ["lease", record.leaseId === "" ? null : record.leaseId],
    ["cgroup", boundary?.cgroup ?? null],
    ["cgroup inode", typeof boundary?.cgroup === "string" ? boundary.cgroupInode : null],
    ["job", boundary?.jobId ?? null],
    ["leader", root === null ? null : `${identityText(root)}${identityState(live.root)}`],
    ["anchor", anchor === null ? null : `${identityText(anchor)}${identityState(live.anchor)}`],
    ["anchor path", record.imported === null ? record.anchorPath : null],
    ["command hash", record.commandHash],
    [
      "host",
      `${host === null ? "" : `${host}, `}${record.hostId}, boot ${record.bootId}, ${record.pidNamespace}${record.timeNamespace === null ? "" : `, ${record.timeNamespace}`}`,
    ],
  ];
}

function importedText({ pid, startTime, wrapperRoot }: NonNullable<RunRecord["imported"]>): string {
  return `pid ${pid}${startTime === null ? "" : `, start ${startTime}`}, below ${wrapperRoot}`;
}

function identityText({ pid, startTime, uniqueId }: ProcessIdentity): string {
  return `pid ${pid}, start ${startTime}${uniqueId === null ? "" : `, unique ${uniqueId}`}`;
}

/** The live state of a recorded identity. */
function identityState(evidence: ProcessEvidence | null): string {
  if (evidence === null) return "";
  if (!evidence.alive) return ": gone";
  if (evidence.state === HIDDEN_STATE && !evidence.matches) return ": hidden, cannot be inspected";
  return evidence.matches ? ": alive, verified" : ": gone; another process has its pid now";
}

export function processLines({ state, root }: RunRecord, live: RunProcesses): readonly string[] {
  if (state === "exited") return [];
  const { anchor, processes, claims, unknown } = live;
  const top = anchor?.matches === true ? anchor : null;
  if (unknown !== null && anchor === null && live.root === null && processes.length + claims.length === 0)
    return [`not inspected: ${sanitizeLine(unknown)}`];
  const none = unknown === null ? ["none is alive"] : [];
  return [
    ...(processes.length === 0 && top === null ? none : processTree(top, processes, root?.pid ?? null)),
    ...claims.map(
      ({ identity: { pid }, command }) => `? ${pid} ${sanitizeLine(command)}  (has its marker; not verified)`,
    ),
    ...(unknown === null ? [] : [`unknown: ${sanitizeLine(unknown)}`]),
  ];
}

function residueLines({ residue, residueCount }: RunRecord): readonly string[] {
  const lines = residue.map((each) => sanitizeLine(describeSurvivor(each)));
  return residueCount > residue.length ? [...lines, `and ${residueCount - residue.length} more`] : lines;
}

/** Drops all output heartbeats but the last. */
function eventLines(events: readonly RunEvent[]): readonly string[] {
  const lastOutput = events.findLast(({ type }) => type === "output");
  return events
    .filter((event) => event.type !== "output" || event === lastOutput)
    .map((event) => `${formatTime(event.at)}  ${event.type.padEnd(9)}  ${sanitizeLine(runEventText(event))}`);
}

/** Prints runs one after the other; with `json`, one record, or an array of several. */
export async function showRuns(wanted: readonly string[], json: boolean): Promise<number> {
  const shown: { readonly text: string; readonly record: object }[] = [];
  for (const each of wanted) shown.push(await readRun(each));
  const records = shown.map(({ record }) => record);
  if (json) print(toJson(records.length === 1 ? records[0] : records, 2));
  else print(`${shown.map(({ text }) => text).join("\n\n")}\n`);
  return 0;
}

async function readRun(wanted: string): Promise<{ readonly text: string; readonly record: object }> {
  await using found = await openRunView();
  const { view: store, unread } = found;
  if (store === null) throw new RunNotFound(wanted);
  const record = await resolveRunRecord(store, wanted).catch((error: unknown) => {
    throw unread !== null && error instanceof RunNotFound ? unread : error;
  });
  const events = await allEvents(store, record.runId);
  const here = await observeMachineIdentity(resolveHome());
  const live = await inspectRun(record, await store.listRuns({ states: OPEN_RUN_STATES }));
  const hosts = await readKnownHosts(store);
  const hostName = hosts.nameOf(record.hostId);
  const view = await leaseObserver(store, here);
  const context = {
    host: hosts.hasSeveral ? hosts.displayName(record.hostId) : null,
    ownerWarning: ownerWarning(record, view),
  };
  return {
    text: describeRun(record, live, events, Date.now(), paletteFor(1), context).join("\n"),
    record: { ...record, hostName, processes: live, events },
  };
}

async function allEvents(store: RunView, runId: string): Promise<readonly RunEvent[]> {
  const page = 1_000;
  const events: RunEvent[] = [];
  for (let after = 0; ;) {
    const next = await store.listEvents({ runId, after, limit: page });
    events.push(...next);
    after = next.at(-1)?.seq ?? after;
    if (next.length < page) return events;
  }
}
