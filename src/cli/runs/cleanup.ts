import { defaults } from "../../defaults.js";
import { BadInput, RunNotFound } from "../../errors.js";
import type { RunRecord } from "../../model/run.js";
import { openStoreForReading } from "../../store/open.js";
import type { ReadStore } from "../../store/store.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import {
  type InspectableRun,
  listLiveProcesses,
  notInspected,
  type RunProcesses,
} from "../../supervisor/inspect/live-processes.js";
import { openSupervisor } from "../../supervisor/open.js";
import { NEVER_OWNED } from "../../supervisor/reconcile/decide.js";
import { runAddressOf } from "../../supervisor/reconcile/evidence.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator } from "../client/connect.js";
import { type LocalState, openLocalState } from "../client/local-state.js";
import { cliActor } from "../client/requester.js";
import { type FoundRun, resolveRunRecord, toRunIdPrefix } from "../client/resolve-run.js";
import { formatDuration } from "../options/units.js";
import { exitCodes } from "../print/exit-code.js";
import { paletteFor } from "../print/palette.js";
import { runStatusText } from "../print/run-status.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { confirm } from "../print/terminal-prompt.js";
import { stopExitCode } from "../process/actions.js";
import { type SelectedRun, selectRuns } from "../stop/select-runs.js";
import { printRemark, StopCoordinator } from "../stop/stop-coordinator.js";
import { printStopOutcome, runStopOperation, stopOutcome, type StopOutcome } from "../stop/stop-run.js";
import { gatherRunEvidence, type RunEvidence } from "./cleanup-evidence.js";
import { processesJson } from "./processes.js";

export interface CleanupRequest {
  readonly run: string | null;
  readonly session: string | null;
  readonly agent: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly allOrphans: boolean;
  /** With `allOrphans`: services, too, which live without a gateway by design. */
  readonly includeServices: boolean;
  readonly dryRun: boolean;
  readonly yes: boolean;
  readonly json: boolean;
}

type KeptOutcome = { readonly outcome: "left-alone" | "kept"; readonly detail: string };
type CleanupOutcome = StopOutcome | KeptOutcome;

function isKept(plan: CleanupPlan): boolean {
  return plan === "keep-service" || plan === "keep-unknown";
}

function isUntouched(result: CleanupOutcome): result is KeptOutcome {
  return result.outcome === "left-alone" || result.outcome === "kept";
}

/** What `--yes` does about a run. */
type CleanupPlan =
  /** Stop it, then end its record if no supervisor does. */
  | "stop"
  /** The gateway of its host is asked to stop it. */
  | "hand-over"
  /** Only its record is ended, in one of three ways. */
  | "sweep"
  | "finalize"
  | "spawn-error"
  | "lose"
  | "leave"
  /** A service that lives without a gateway by design. */
  | "keep-service"
  /** It may be such a service. */
  | "keep-unknown";

/** One run in the scope: with a record, or known only from its directory. */
interface CleanupItem {
  readonly runId: string;
  readonly plan: CleanupPlan;
  readonly found: FoundRun;
  readonly live: RunProcesses;
  /** Null: it has no record. */
  readonly surveyed: RunEvidence | null;
  readonly lines: readonly string[];
  readonly json: object;
}

/** Show what is left and why it is ours, ask, end it, and say what became of each. */
export async function cleanupRuns(request: CleanupRequest): Promise<number> {
  assertOperator("clean up runs");
  assertScope(request);
  const began = performance.now();
  await using localState = await openLocalState();
  const items = localState === null ? [] : await selectItems(localState, request);
  if (request.run !== null && items.length === 0) throw new RunNotFound(request.run);
  if (items.length === 0 || localState === null) {
    if (request.json) print(toJson({ runs: [] }));
    else notice("there is nothing to clean up", "dim");
    return 0;
  }
  if (!request.json) print(`${items.flatMap(({ lines }) => lines).join("\n")}\n`);
  const endable = items.filter(({ plan }) => plan !== "leave" && !isKept(plan));
  if (request.dryRun || endable.length === 0) {
    if (request.json) print(toJson({ runs: items.map(({ json }) => json) }));
    const left = items.some(({ plan }) => plan === "leave");
    return request.dryRun || !left ? 0 : exitCodes.incomplete;
  }
  const question = endable.length === 1 ? "End this run?" : `End these ${endable.length} runs?`;
  if (!(await confirm(question, request.yes))) {
    notice("nothing was changed", "dim");
    return exitCodes.incomplete;
  }
  // The time limit starts after the confirmation.
  const coordinator = new StopCoordinator(null, request.yes ? began : performance.now());
  const results = await carryOutPlans(coordinator, items);
  if (request.json)
    print(
      toJson({
        runs: items.map((item) => {
          const result = results.get(item.runId);
          return { ...item.json, ...result, ended: endedProcesses(item, result) };
        }),
      }),
    );
  else for (const item of items) printOutcome(item, results.get(item.runId));
  const codes = [...results.values()].map(({ outcome }) => (outcome === "kept" ? 0 : stopExitCode(outcome)));
  return codes.find((code) => code === exitCodes.incomplete) ?? Math.max(0, ...codes);
}

function assertScope({ run, session, agent, labels, allOrphans }: CleanupRequest): void {
  if (run !== null || session !== null || agent !== null || allOrphans || Object.keys(labels).length > 0)
    return;
  throw new BadInput(
    "scope",
    "say what to clean up: --run, --session, --agent, --label, or --all-orphans for every run whose owner is gone. Nothing was changed",
  );
}

/** From the store, and from the run directories for runs that cannot be read from the store. */
async function selectItems(localState: LocalState, request: CleanupRequest): Promise<readonly CleanupItem[]> {
  const { run, session, agent, labels, allOrphans } = request;
  let unread: Error | null = null;
  let surveyed: readonly RunEvidence[] = [];
  try {
    await using store = await openStoreForReading(localState.directory.storePath);
    if (store !== null) surveyed = await recordedLeftovers(localState, store, request);
  } catch (error) {
    if (error instanceof BadInput) throw error;
    if (!(error instanceof RunNotFound)) unread = error instanceof Error ? error : new Error(String(error));
  }
  if (unread !== null)
    notice(
      `the store cannot be read (${unread.message.split(". ", 1)[0]}); only the run directories are used`,
      "yellow",
    );
  const known = new Set(surveyed.map(({ record }) => record.runId));
  const { runs } = await selectRuns(
    localState,
    (scope, runId) =>
      (run === null || runId.startsWith(toRunIdPrefix(run))) &&
      (session === null || scope.sessionKey === session) &&
      (agent === null || scope.agentId === agent) &&
      Object.entries(labels).every(([key, value]) => scope.labels[key] === value),
    unread,
  );
  const unrecorded = runs.filter(
    (each) =>
      each.record === null &&
      !each.ended &&
      !known.has(each.runId) &&
      (!allOrphans || each.ownerAlive === false),
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

/** The anchor is asked before a run is taken for a task: its file may be of an older anchor, or could not be written. */
async function directoryPlan(
  { host }: LocalState,
  { address, scope }: SelectedRun,
  { allOrphans, includeServices }: CleanupRequest,
): Promise<CleanupPlan> {
  if (!allOrphans || includeServices) return "stop";
  if (scope.kind === "service") return "keep-service";
  const observer =
    address === null ? null : await host.attach(address, 0, defaults.anchorAnswerMs).catch(() => null);
  observer?.close();
  const kind = observer?.welcome.kind ?? scope.kind;
  if (kind === null) return "keep-unknown";
  return kind === "service" ? "keep-service" : "stop";
}

/** As its directory identifies it. Its numbers are looked up here: of another boot they lead to nothing. */
async function toTracedRun({ host }: LocalState, { runId, address }: SelectedRun): Promise<InspectableRun> {
  const known = address === null ? null : await host.readIdentities(address).catch(() => null);
  const { anchor = null, root = null, cgroup = null } = known ?? {};
  const boundary = cgroup === null ? null : { cgroup: cgroup.path, cgroupInode: cgroup.inode, note: null };
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
      `  ${dim(ownerAlive === true ? "its owner lives" : "its owner is gone")}`,
      ...processLines(live),
      `  would: ${PLAN_TEXT[plan]}`,
    ],
    json: { ...facts, plan, ...processesJson(live) },
  };
}

async function recordedLeftovers(
  localState: LocalState,
  store: ReadStore,
  { run, session, agent, labels, allOrphans }: CleanupRequest,
): Promise<readonly RunEvidence[]> {
  const runId = run === null ? null : (await resolveRunRecord(store, run)).runId;
  const filter = {
    labels,
    ...(session === null ? {} : { sessionKey: session }),
    ...(agent === null ? {} : { agentId: agent }),
  };
  const all = await gatherRunEvidence(localState, store, filter, runId);
  return allOrphans ? all.filter(isOrphan) : all;
}

/** Nobody looks after it: its lease may be had, or will be as soon as it has expired. */
function isOrphan({ claim, decision, ownerAlive, elsewhere }: RunEvidence): boolean {
  if (elsewhere) return false;
  return ownerAlive === false || (claim !== null && decision.row !== "elsewhere");
}

function planOf(each: RunEvidence, { allOrphans, includeServices }: CleanupRequest): CleanupPlan {
  const { record, answers, elsewhere, decision, processes } = each;
  if (elsewhere) return "hand-over";
  const lives = answers || processes.anchor?.matches === true || processes.processes.length > 0;
  if (lives && allOrphans && record.kind === "service" && !includeServices) return "keep-service";
  if (lives && record.imported === null) return "stop";
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

/** Live runs are stopped through StopPath like in all commands; of the others only the records are ended. */
async function carryOutPlans(
  coordinator: StopCoordinator,
  items: readonly CleanupItem[],
): Promise<ReadonlyMap<string, CleanupOutcome>> {
  const results = new Map<string, CleanupOutcome>();
  for (const { runId, plan, surveyed } of items) {
    if (plan === "leave")
      results.set(runId, { outcome: "left-alone", detail: surveyed === null ? "" : reasonText(surveyed) });
    if (isKept(plan)) results.set(runId, { outcome: "kept", detail: PLAN_TEXT[plan] });
  }
  const stopped = items.filter(({ plan }) => plan === "stop" || plan === "hand-over");
  await Promise.all(
    stopped.map(async ({ runId, found, plan }) => {
      const operation = runStopOperation(runId, null);
      const local = plan === "hand-over" ? operation : { ...operation, find: async () => [found] };
      const answer = await coordinator.stop(local);
      results.set(runId, stopOutcome(answer).outcome);
      if (answer.through === "direct") printRemark(answer.remark);
    }),
  );
  const rest = items
    .filter(({ runId, plan }) => !results.has(runId) && plan !== "leave")
    .map(({ runId }) => runId);
  // Also those that were just stopped: their records can be ended when nobody else will.
  const orphaned = stopped
    .filter(({ surveyed, plan }) => surveyed !== null && surveyed.claim !== null && plan === "stop")
    .map(({ runId }) => runId);
  const runIds = [...new Set([...rest, ...orphaned])];
  if (runIds.length === 0) return results;
  // Whether anything of them is left is not known: their records say how they ended.
  const unknown = orphaned.filter((runId) => results.get(runId)?.outcome === "unknown");
  try {
    await endUnderLease(coordinator, runIds, [...rest, ...unknown], results);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    notice(`records are completed by the next gateway: ${why}`, "yellow");
    for (const runId of rest) results.set(runId, { outcome: "left-alone", detail: why });
  }
  return results;
}

async function endUnderLease(
  coordinator: StopCoordinator,
  runIds: readonly string[],
  rest: readonly string[],
  results: Map<string, CleanupOutcome>,
): Promise<void> {
  await using supervisor = await openSupervisor({
    actor: cliActor(),
    onProblem: ({ message }) => notice(message, "yellow"),
  });
  const { decisions, runs } = await supervisor.reconcile({ runIds, terminate: true });
  const enough = AbortSignal.timeout(Math.max(defaults.killReportMs, coordinator.leftMs));
  await Promise.all(runs.map((run) => waitForEnd(run, enough)));
  for (const runId of rest) results.set(runId, await outcomeOnRecord(supervisor, runId, decisions));
}

/** Waits until the run has ended or reports survivors, or `enough` is aborted. */
async function waitForEnd(run: Run, enough: AbortSignal): Promise<void> {
  let waiting = true;
  const over = run.wait().then(
    () => undefined,
    () => undefined,
  );
  void over.then(() => (waiting = false));
  while (waiting && run.survivors.length === 0 && !enough.aborted)
    await Promise.race([over, new Promise((resolve) => setTimeout(resolve, 100))]);
}

async function outcomeOnRecord(
  supervisor: Supervisor,
  runId: string,
  decisions: readonly { readonly runId: string; readonly action: string; readonly why: string }[],
): Promise<CleanupOutcome> {
  const record = await supervisor.getRun(runId);
  const survivors = supervisor.run(runId)?.survivors ?? [];
  if (survivors.length > 0) return { outcome: "survivors", survivors, detail: "its anchor goes on trying" };
  if (record?.state === "exited")
    return record.emptiness === "proven"
      ? { outcome: "gone", detail: `${runStatusText(record)}, proven empty` }
      : { outcome: "left-alone", detail: unprovenEndText(record) };
  const why = decisions.find((each) => each.runId === runId)?.why;
  return { outcome: "left-alone", detail: why ?? "somebody else has taken it up meanwhile" };
}

function unprovenEndText({ exit }: RunRecord): string {
  const detail = exit?.detail ?? null;
  return `ended on record as ${exit?.reason ?? "lost"}, emptiness unproven${detail === null ? "" : `: ${detail}`}`;
}

/** Processes that were listed before and do not survive. */
function endedProcesses(
  { live }: CleanupItem,
  result: CleanupOutcome | undefined,
): readonly { readonly pid: number; readonly command: string }[] {
  if (result?.outcome !== "gone" && result?.outcome !== "survivors") return [];
  const left = new Set(result.outcome === "survivors" ? result.survivors.map(({ pid }) => pid) : []);
  return live.processes
    .filter(({ identity }) => !left.has(identity.pid))
    .map(({ identity: { pid }, command }) => ({ pid, command }));
}

function printOutcome(item: CleanupItem, result: CleanupOutcome | undefined): void {
  const { runId } = item;
  if (result === undefined) return;
  if (isUntouched(result)) return print(`${runId}: ${sanitizeLine(result.detail)}\n`);
  printStopOutcome(runId, result);
  const names = endedProcesses(item, result);
  if (names.length > 0)
    print(`  ended: ${names.map(({ pid, command }) => `${pid} ${sanitizeLine(command)}`).join(", ")}\n`);
}

function recordedLines(each: RunEvidence, plan: CleanupPlan): string[] {
  const { record, evidence, processes: live } = each;
  const { bold, dim } = paletteFor(1);
  const owner = record.ownerInstanceId === NEVER_OWNED ? "nobody (imported)" : record.ownerInstanceId;
  return [
    `${bold(record.runId)}  ${runStatusText(record)}  ${sanitizeLine(record.command)}`,
    `  ${dim(`owner ${owner}: ${reasonText(each)}`)}`,
    ...(evidence.length === 0
      ? [
          live.unknown === null
            ? "  no live process of it is verified"
            : `  unknown: ${sanitizeLine(live.unknown)}`,
        ]
      : evidence.map((fact) => `  ours: ${sanitizeLine(fact)}`)),
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
        `  process ${pid} ${sanitizeLine(command)} carries its marker, is not verified, and is left alone`,
    ),
  ];
}

/** A lease outlives its holder, by half a minute at most: until then nobody may write the record. */
function reasonText({ decision, ownerAlive, leaseMs }: RunEvidence): string {
  if (decision.row !== "healthy" || ownerAlive !== false) return decision.why;
  return `its owner is gone, but its record cannot be ended before its lease expires, in ${formatDuration(leaseMs)}`;
}

const PLAN_TEXT: Readonly<Record<CleanupPlan, string>> = {
  stop: "stop it, then end its record",
  "hand-over": "hand it to the gateway that has it, to be stopped there",
  "keep-service": "keep it: a service lives without a gateway by design; --include-services ends it",
  "keep-unknown":
    "keep it: it may be a service, neither its directory nor its anchor says; --include-services ends it",
  leave: "leave it alone",
  sweep: "end the verified processes, then its record",
  finalize: "end its record as its exit file says",
  "spawn-error": "end its record: it never ran",
  lose: "end its record as lost; nobody is signalled",
};
