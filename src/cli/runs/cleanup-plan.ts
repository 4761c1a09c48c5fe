import { defaults } from "../../defaults.js";
import { sessionFilter } from "../../queries/runs.js";
import { openStoreForReading } from "../../store/open.js";
import type { ReadStore } from "../../store/store.js";
import {
  type InspectableRun,
  listLiveProcesses,
  notInspected,
  type RunProcesses,
} from "../../supervisor/inspect/live-processes.js";
import { NEVER_OWNED } from "../../supervisor/reconcile/decide.js";
import { boundaryOf, runAddressOf } from "../../supervisor/run/recorded-identity.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { type FoundRun, resolveRun } from "../client/resolve-run.js";
import type { LocalState } from "../../queries/local-state-directory.js";
import { formatDuration } from "../../text/format-units.js";
import { runStatusText } from "../print/run-status.js";
import { notice } from "../print/errors-and-notices.js";
import { paletteFor } from "../print/colours-and-progress.js";
import { type SelectedRun, selectRuns } from "../stop/select-runs.js";
import { gatherRunEvidence, type RunEvidence } from "./cleanup-evidence.js";
import { processesJson } from "./processes.js";

/** The options of `runs cleanup`. */
export interface CleanupRequest {
  readonly run?: string;
  readonly session?: string;
  readonly agent?: string;
  readonly label?: Readonly<Record<string, string>>;
  readonly allOrphans?: true;
  /** With `allOrphans`: also services, which run without a gateway by design. */
  readonly includeServices?: true;
  readonly dryRun?: true;
  readonly yes?: true;
  readonly json?: true;
}

/** The action of `--yes` for a run. */
export type CleanupPlan =
  /** Stop it, then end its record if no supervisor does. */
  | "stop"
  /** The gateway of its host stops it. */
  | "hand-over"
  /** Only its record is ended, in one of three ways. */
  | "sweep"
  | "finalize"
  | "spawn-error"
  | "lose"
  | "leave"
  /** A service that runs without a gateway by design. */
  | "keep-service"
  /** It may be such a service. */
  | "keep-unknown";

/** One run in the scope: with a record, or known only from its directory. */
export interface CleanupItem {
  readonly runId: string;
  readonly plan: CleanupPlan;
  readonly found: FoundRun;
  readonly live: RunProcesses;
  /** Null: it has no record. */
  readonly surveyed: RunEvidence | null;
  readonly lines: readonly string[];
  readonly json: object;
}

/** From the store, and from the run directories for runs that cannot be read from the store. */
export async function selectItems(
  localState: LocalState,
  request: CleanupRequest,
): Promise<readonly CleanupItem[]> {
  const { run, session, agent, label = {}, allOrphans } = request;
  const wanted = run === undefined ? null : await resolveRun(localState, run);
  if (run !== undefined && wanted === null) return [];
  const runId = wanted?.runId ?? null;
  let unread: Error | null = null;
  let surveyed: readonly RunEvidence[] = [];
  try {
    await using store = await openStoreForReading(localState.directory.storePath);
    if (store !== null) surveyed = await recordedLeftovers(localState, store, request, runId);
  } catch (error) {
    unread = error instanceof Error ? error : new Error(String(error));
  }
  if (unread !== null)
    notice(
      `the store cannot be read (${unread.message.split(". ", 1)[0]}); only the run directories are used`,
      "yellow",
    );
  const known = new Set(surveyed.map(({ record }) => record.runId));
  const runs = await selectRuns(
    localState,
    (scope, found) =>
      (runId === null || found === runId) &&
      (session === undefined || scope.sessionKey === session || scope.sessionId === session) &&
      (agent === undefined || scope.agentId === agent) &&
      Object.entries(label).every(([key, value]) => scope.labels[key] === value),
    unread,
  );
  const unrecorded = runs.filter(
    (each) =>
      each.record === null &&
      !each.ended &&
      !known.has(each.runId) &&
      (allOrphans !== true || each.ownerAlive === false),
  );
  const traced = await Promise.all(unrecorded.map((found) => toTracedRun(localState, found)));
  const live = await listLiveProcesses(localState.host, traced);
  return [
    ...surveyed.map((each) => recordedItem(each, request)),
    ...(await Promise.all(
      unrecorded.map(async (found) => {
        const plan = await directoryPlan(localState, found, request);
        return directoryItem(found, live.get(found.runId) ?? notInspected(null), plan);
      }),
    )),
  ];
}

/** Queries the anchor before a run counts as a task: its file may be of an older anchor, or missing. */
async function directoryPlan(
  { host }: LocalState,
  { address, scope }: SelectedRun,
  { allOrphans, includeServices }: CleanupRequest,
): Promise<CleanupPlan> {
  if (allOrphans !== true || includeServices === true) return "stop";
  if (scope.kind === "service") return "keep-service";
  const observer =
    address === null ? null : await host.attach(address, 0, defaults.anchorAnswerMs).catch(() => null);
  observer?.close();
  const kind = observer?.welcome.kind ?? scope.kind;
  if (kind === null) return "keep-unknown";
  return kind === "service" ? "keep-service" : "stop";
}

/** The run as its directory identifies it. Its pids are looked up here: pids of another boot match no process. */
async function toTracedRun({ host }: LocalState, { runId, address }: SelectedRun): Promise<InspectableRun> {
  const known = address === null ? null : await host.readIdentities(address).catch(() => null);
  const { anchor = null, root = null, cgroup = null } = known ?? {};
  const boundary = boundaryOf(cgroup);
  const when = { state: "running", imported: null, leaseId: "", createdAt: 0 } as const;
  return { runId, ...host.machine, anchor, root, boundary, ...when };
}

function directoryItem(found: SelectedRun, live: RunProcesses, plan: CleanupPlan): CleanupItem {
  const { runId, scope, ownerAlive } = found;
  const { bold, dim } = paletteFor(1);
  const { sessionKey, agentId, labels, command } = scope;
  const facts = { runId, state: null, command, labels, sessionKey, agentId };
  return {
    runId,
    plan,
    found,
    live,
    surveyed: null,
    lines: [
      `${bold(runId)}  known from its directory only  ${sanitizeLine(command)}`,
      `  ${dim(ownerAlive === true ? "its owner is alive" : "its owner is gone")}`,
      ...processLines(live),
      `  would: ${PLAN_TEXT[plan]}`,
    ],
    json: { ...facts, plan, ...processesJson(live) },
  };
}

async function recordedLeftovers(
  localState: LocalState,
  store: ReadStore,
  { session, agent, label = {}, allOrphans }: CleanupRequest,
  runId: string | null,
): Promise<readonly RunEvidence[]> {
  const filter = {
    labels: label,
    ...(session === undefined ? {} : sessionFilter(session)),
    ...(agent === undefined ? {} : { agentId: agent }),
  };
  const all = await gatherRunEvidence(localState, store, filter, runId);
  return allOrphans === true ? all.filter(isOrphan) : all;
}

/** It has no owner: its lease can be acquired, now or when it has expired. */
function isOrphan({ claim, decision, ownerAlive, elsewhere }: RunEvidence): boolean {
  if (elsewhere) return false;
  return ownerAlive === false || (claim !== null && decision.row !== "elsewhere");
}

function planOf(each: RunEvidence, { allOrphans, includeServices }: CleanupRequest): CleanupPlan {
  const { record, answers, elsewhere, decision, processes } = each;
  if (elsewhere) return "hand-over";
  const alive = answers || processes.anchor?.matches === true || processes.processes.length > 0;
  if (alive && allOrphans === true && record.kind === "service" && includeServices !== true)
    return "keep-service";
  if (alive && record.imported === null) return "stop";
  switch (decision.action) {
    case "leave":
    case "sweep":
    case "finalize":
    case "spawn-error":
    case "lose":
      return decision.action;
    // Its anchor was alive a moment ago.
    case "continue":
    case "adopt":
    case "terminate":
      return "stop";
  }
}

function recordedItem(each: RunEvidence, request: CleanupRequest): CleanupItem {
  const { record, decision, evidence, answers, processes } = each;
  const { runId, state, command, ownerInstanceId, labels, sessionKey, agentId } = record;
  const plan = planOf(each, request);
  const { row, why } = decision;
  const facts = { runId, state, command, ownerInstanceId, labels, sessionKey, agentId, evidence, answers };
  return {
    runId,
    plan,
    found: { runId, address: runAddressOf(record), record, unread: null },
    live: processes,
    surveyed: each,
    lines: recordedLines(each, plan),
    json: { ...facts, decision: { row, why }, plan, ...processesJson(processes) },
  };
}

function recordedLines(each: RunEvidence, plan: CleanupPlan): string[] {
  const { record, evidence, processes: live } = each;
  const { bold, dim } = paletteFor(1);
  const owner = record.ownerInstanceId === NEVER_OWNED ? "none (imported)" : record.ownerInstanceId;
  return [
    `${bold(record.runId)}  ${runStatusText(record)}  ${sanitizeLine(record.command)}`,
    `  ${dim(`owner ${owner}: ${reasonText(each)}`)}`,
    ...(evidence.length === 0
      ? [
          live.unknown === null
            ? "  no live process of it is verified"
            : `  unknown: ${sanitizeLine(live.unknown)}`,
        ]
      : evidence.map((fact) => `  evidence: ${sanitizeLine(fact)}`)),
    ...processLines(live),
    `  would: ${PLAN_TEXT[plan]}`,
  ];
}

function processLines({ processes, claims }: RunProcesses): string[] {
  return [
    ...processes.map(
      ({ identity: { pid }, command }) => `  process ${pid} ${sanitizeLine(command) || "(hidden)"}`,
    ),
    ...claims.map(
      ({ identity: { pid }, command }) =>
        `  process ${pid} ${sanitizeLine(command)} has its marker, is not verified, and is left alone`,
    ),
  ];
}

/** A lease outlives its owner by at most half a minute: until then no other supervisor may write the record. */
export function reasonText({ decision, ownerAlive, leaseMs }: RunEvidence): string {
  if (decision.row !== "healthy" || ownerAlive !== false) return decision.why;
  return `its owner is gone, but its record cannot be ended before its lease expires, in ${formatDuration(leaseMs)}`;
}

export const PLAN_TEXT: Readonly<Record<CleanupPlan, string>> = {
  stop: "stop it, then end its record",
  "hand-over": "forward the stop to the gateway that owns the run",
  "keep-service": "keep it: a service runs without a gateway by design; --include-services ends it",
  "keep-unknown": "keep it: it may be a service; --include-services ends it",
  leave: "leave it alone",
  sweep: "end the verified processes, then its record",
  finalize: "end its record with the outcome in its exit file",
  "spawn-error": "end its record: it never ran",
  lose: "end its record as lost; no process is signalled",
};
