import { defaults } from "../../defaults.js";
import { BadInput, RunNotFound } from "../../errors.js";
import { sanitizeLine } from "../../output/sanitize.js";
import { openStoreForReading } from "../../store/open.js";
import type { RunRecord } from "../../store/run-record.js";
import type { ReadStore } from "../../store/store.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import {
  liveProcesses,
  notLookedAt,
  type RunProcesses,
  type TracedRun,
} from "../../supervisor/live-processes.js";
import { openSupervisor } from "../../supervisor/open.js";
import { NOBODY } from "../../supervisor/reconcile/decide.js";
import { addressOf } from "../../supervisor/reconcile/look.js";
import { cliActor } from "../actor.js";
import { say } from "../complain.js";
import { formatDuration } from "../duration.js";
import { exitCodes } from "../exit-code.js";
import { mustBeOperator } from "../gateway/connect.js";
import { toJson } from "../json.js";
import { paletteFor } from "../palette.js";
import { stopCode } from "../process/act.js";
import { findRecord } from "../runs/find-record.js";
import { runPrefix } from "../runs/pick-run.js";
import { print } from "../runs/print.js";
import { shownProcesses } from "../runs/shown-processes.js";
import { statusOf } from "../runs/status.js";
import { selectRuns, type SelectedRun } from "../stop/select-runs.js";
import { sayRemark, StopPath } from "../stop/stop.js";
import { outcomeOf, report, runFace, type Outcome } from "./cancel.js";
import { confirm } from "./confirm.js";
import type { FoundRun } from "./find-run.js";
import { openObservatory, type Observatory } from "./observer.js";
import { survey, type Surveyed } from "./survey.js";

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

type Untouched = { readonly outcome: "left-alone" | "kept"; readonly detail: string };
type Result = Outcome | Untouched;

function isKept(plan: Plan): boolean {
  return plan === "keep-service" || plan === "keep-unknown";
}

function isUntouched(result: Result): result is Untouched {
  return result.outcome === "left-alone" || result.outcome === "kept";
}

/** What `--yes` does about a run. */
type Plan =
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
interface Item {
  readonly runId: string;
  readonly plan: Plan;
  readonly found: FoundRun;
  readonly live: RunProcesses;
  /** Null: it has no record. */
  readonly surveyed: Surveyed | null;
  readonly lines: readonly string[];
  readonly json: object;
}

/** Show what is left and why it is ours, ask, end it, and say what became of each. */
export async function cleanupRuns(request: CleanupRequest): Promise<number> {
  mustBeOperator("clean up runs");
  mustHaveScope(request);
  const began = performance.now();
  await using observatory = await openObservatory();
  const items = observatory === null ? [] : await inScope(observatory, request);
  if (request.run !== null && items.length === 0) throw new RunNotFound(request.run);
  if (items.length === 0 || observatory === null) {
    if (request.json) print(toJson({ runs: [] }));
    else say("there is nothing to clean up", "dim");
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
    say("nothing was changed", "dim");
    return exitCodes.incomplete;
  }
  // The time limit starts after the confirmation.
  const path = new StopPath(null, request.yes ? began : performance.now());
  const results = await endAll(path, items);
  if (request.json)
    print(
      toJson({
        runs: items.map((item) => {
          const result = results.get(item.runId);
          return { ...item.json, ...result, ended: endedProcesses(item, result) };
        }),
      }),
    );
  else for (const item of items) tell(item, results.get(item.runId));
  const codes = [...results.values()].map(({ outcome }) => (outcome === "kept" ? 0 : stopCode(outcome)));
  return codes.find((code) => code === exitCodes.incomplete) ?? Math.max(0, ...codes);
}

function mustHaveScope({ run, session, agent, labels, allOrphans }: CleanupRequest): void {
  if (run !== null || session !== null || agent !== null || allOrphans || Object.keys(labels).length > 0)
    return;
  throw new BadInput(
    "scope",
    "say what to clean up: --run, --session, --agent, --label, or --all-orphans for every run whose owner is gone. Nothing was changed",
  );
}

/** From the store, and from the run directories for runs that cannot be read from the store. */
async function inScope(observatory: Observatory, request: CleanupRequest): Promise<readonly Item[]> {
  const { run, session, agent, labels, allOrphans } = request;
  let unread: Error | null = null;
  let surveyed: readonly Surveyed[] = [];
  try {
    await using store = await openStoreForReading(observatory.directory.storePath);
    if (store !== null) surveyed = await leftovers(observatory, store, request);
  } catch (error) {
    if (error instanceof BadInput) throw error;
    if (!(error instanceof RunNotFound)) unread = error instanceof Error ? error : new Error(String(error));
  }
  if (unread !== null)
    say(
      `the store cannot be read (${unread.message.split(". ", 1)[0]}); only the run directories are used`,
      "yellow",
    );
  const known = new Set(surveyed.map(({ record }) => record.runId));
  const { runs } = await selectRuns(
    observatory,
    (scope, runId) =>
      (run === null || runId.startsWith(runPrefix(run))) &&
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
  const traced = await Promise.all(unrecorded.map((found) => tracedRun(observatory, found)));
  const live = await liveProcesses(observatory.host, traced);
  return [
    ...surveyed.map((each) => recordedItem(each, request)),
    ...(await Promise.all(
      unrecorded.map(async (found) => {
        const plan = await directoryPlan(observatory, found, request);
        return directoryItem(found, live.get(found.runId) ?? notLookedAt(null), plan);
      }),
    )),
  ];
}

/** The anchor is asked before a run is taken for a task: its file may be of an older anchor, or could not be written. */
async function directoryPlan(
  { host }: Observatory,
  { address, scope }: SelectedRun,
  { allOrphans, includeServices }: CleanupRequest,
): Promise<Plan> {
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
async function tracedRun({ host }: Observatory, { runId, address }: SelectedRun): Promise<TracedRun> {
  const known = address === null ? null : await host.identities(address).catch(() => null);
  const { anchor = null, root = null, cgroup = null } = known ?? {};
  const boundary = cgroup === null ? null : { cgroup: cgroup.path, cgroupInode: cgroup.inode, note: null };
  const when = { state: "running", imported: null, leaseId: "", createdAt: 0 } as const;
  return { runId, ...host.machine, anchor, root, boundary, ...when };
}

function directoryItem(found: SelectedRun, live: RunProcesses, plan: Plan): Item {
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
      `  would: ${PLANS[plan]}`,
    ],
    json: { ...facts, plan, ...shownProcesses(live) },
  };
}

async function leftovers(
  observatory: Observatory,
  store: ReadStore,
  { run, session, agent, labels, allOrphans }: CleanupRequest,
): Promise<readonly Surveyed[]> {
  const runId = run === null ? null : (await findRecord(store, run)).runId;
  const filter = {
    labels,
    ...(session === null ? {} : { sessionKey: session }),
    ...(agent === null ? {} : { agentId: agent }),
  };
  const all = await survey(observatory, store, filter, runId);
  return allOrphans ? all.filter(isOrphan) : all;
}

/** Nobody looks after it: its lease may be had, or will be as soon as it has expired. */
function isOrphan({ claim, decision, ownerAlive, elsewhere }: Surveyed): boolean {
  if (elsewhere) return false;
  return ownerAlive === false || (claim !== null && decision.row !== "elsewhere");
}

function planOf(each: Surveyed, { allOrphans, includeServices }: CleanupRequest): Plan {
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

function recordedItem(each: Surveyed, request: CleanupRequest): Item {
  const { record, decision, evidence, answers, processes } = each;
  const { runId, state, command, ownerInstanceId, labels, sessionKey, agentId } = record;
  const plan = planOf(each, request);
  const { row, why } = decision;
  const facts = { runId, state, command, ownerInstanceId, labels, sessionKey, agentId, evidence, answers };
  return {
    runId,
    plan,
    found: { runId, address: addressOf(record), record, unread: null },
    live: processes,
    surveyed: each,
    lines: linesOf(each, plan),
    json: { ...facts, decision: { row, why }, plan, ...shownProcesses(processes) },
  };
}

/** Live runs are stopped through StopPath like in all commands; of the others only the records are ended. */
async function endAll(path: StopPath, items: readonly Item[]): Promise<ReadonlyMap<string, Result>> {
  const results = new Map<string, Result>();
  for (const { runId, plan, surveyed } of items) {
    if (plan === "leave")
      results.set(runId, { outcome: "left-alone", detail: surveyed === null ? "" : whyOf(surveyed) });
    if (isKept(plan)) results.set(runId, { outcome: "kept", detail: PLANS[plan] });
  }
  const stopped = items.filter(({ plan }) => plan === "stop" || plan === "hand-over");
  await Promise.all(
    stopped.map(async ({ runId, found, plan }) => {
      const face = runFace(runId, null);
      const local = plan === "hand-over" ? face : { ...face, find: async () => [found] };
      const answer = await path.stop(local);
      results.set(runId, outcomeOf(answer).outcome);
      if (answer.through === "direct") sayRemark(answer.remark);
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
    await endUnderLease(path, runIds, [...rest, ...unknown], results);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    say(`records are completed by the next gateway: ${why}`, "yellow");
    for (const runId of rest) results.set(runId, { outcome: "left-alone", detail: why });
  }
  return results;
}

async function endUnderLease(
  path: StopPath,
  runIds: readonly string[],
  rest: readonly string[],
  results: Map<string, Result>,
): Promise<void> {
  await using supervisor = await openSupervisor({
    actor: cliActor(),
    onProblem: ({ message }) => say(message, "yellow"),
  });
  const { decisions, runs } = await supervisor.reconcile({ runIds, terminate: true });
  const enough = AbortSignal.timeout(Math.max(defaults.killReportMs, path.leftMs));
  await Promise.all(runs.map((run) => ended(run, enough)));
  for (const runId of rest) results.set(runId, await becameOf(supervisor, runId, decisions));
}

/** Waits until the run has ended or reports survivors, or `enough` is aborted. */
async function ended(run: Run, enough: AbortSignal): Promise<void> {
  let waiting = true;
  const over = run.wait().then(
    () => undefined,
    () => undefined,
  );
  void over.then(() => (waiting = false));
  while (waiting && run.survivors.length === 0 && !enough.aborted)
    await Promise.race([over, new Promise((resolve) => setTimeout(resolve, 100))]);
}

async function becameOf(
  supervisor: Supervisor,
  runId: string,
  decisions: readonly { readonly runId: string; readonly action: string; readonly why: string }[],
): Promise<Result> {
  const record = await supervisor.getRun(runId);
  const survivors = supervisor.run(runId)?.survivors ?? [];
  if (survivors.length > 0) return { outcome: "survivors", survivors, detail: "its anchor goes on trying" };
  if (record?.state === "exited")
    return record.emptiness === "proven"
      ? { outcome: "gone", detail: `${statusOf(record)}, proven empty` }
      : { outcome: "left-alone", detail: unprovenText(record) };
  const why = decisions.find((each) => each.runId === runId)?.why;
  return { outcome: "left-alone", detail: why ?? "somebody else has taken it up meanwhile" };
}

function unprovenText({ exit }: RunRecord): string {
  const detail = exit?.detail ?? null;
  return `ended on record as ${exit?.reason ?? "lost"}, emptiness unproven${detail === null ? "" : `: ${detail}`}`;
}

/** Processes that were listed before and do not survive. */
function endedProcesses(
  { live }: Item,
  result: Result | undefined,
): readonly { readonly pid: number; readonly command: string }[] {
  if (result?.outcome !== "gone" && result?.outcome !== "survivors") return [];
  const left = new Set(result.outcome === "survivors" ? result.survivors.map(({ pid }) => pid) : []);
  return live.processes
    .filter(({ identity }) => !left.has(identity.pid))
    .map(({ identity: { pid }, command }) => ({ pid, command }));
}

function tell(item: Item, result: Result | undefined): void {
  const { runId } = item;
  if (result === undefined) return;
  if (isUntouched(result)) return print(`${runId}: ${sanitizeLine(result.detail)}\n`);
  report(runId, result);
  const names = endedProcesses(item, result);
  if (names.length > 0)
    print(`  ended: ${names.map(({ pid, command }) => `${pid} ${sanitizeLine(command)}`).join(", ")}\n`);
}

function linesOf(each: Surveyed, plan: Plan): string[] {
  const { record, evidence, processes: live } = each;
  const { bold, dim } = paletteFor(1);
  const owner = record.ownerInstanceId === NOBODY ? "nobody (imported)" : record.ownerInstanceId;
  return [
    `${bold(record.runId)}  ${statusOf(record)}  ${sanitizeLine(record.command)}`,
    `  ${dim(`owner ${owner}: ${whyOf(each)}`)}`,
    ...(evidence.length === 0
      ? [
          live.unknown === null
            ? "  no live process of it is verified"
            : `  unknown: ${sanitizeLine(live.unknown)}`,
        ]
      : evidence.map((fact) => `  ours: ${sanitizeLine(fact)}`)),
    ...processLines(live),
    `  would: ${PLANS[plan]}`,
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
function whyOf({ decision, ownerAlive, leaseMs }: Surveyed): string {
  if (decision.row !== "healthy" || ownerAlive !== false) return decision.why;
  return `its owner is gone, but its record cannot be ended before its lease expires, in ${formatDuration(leaseMs)}`;
}

const PLANS: Readonly<Record<Plan, string>> = {
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
