import { defaults } from "../../defaults.js";
import { BadInput, RunNotFound } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import type { RunRecord } from "../../model/run.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import { openSupervisor } from "../../supervisor/open.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator } from "../client/connect.js";
import { cliActor } from "../client/requester.js";
import { openLocalState } from "../../queries/local-state-directory.js";
import { exitCodes } from "../print/exit-code.js";
import { runStatusText } from "../print/run-status.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { confirm } from "../print/terminal-prompt.js";
import { printRemark, StopCoordinator } from "../stop/stop-coordinator.js";
import {
  printStopOutcome,
  runStopOperation,
  stopExitCode,
  stopOutcome,
  type StopOutcome,
} from "../stop/stop-run.js";
import {
  type CleanupItem,
  type CleanupPlan,
  type CleanupRequest,
  PLAN_TEXT,
  reasonText,
  selectItems,
} from "./cleanup-plan.js";

type KeptOutcome = { readonly outcome: "left-alone" | "kept"; readonly detail: string };

type CleanupOutcome = StopOutcome | KeptOutcome;

function isKept(plan: CleanupPlan): boolean {
  return plan === "keep-service" || plan === "keep-unknown";
}

function isUntouched(result: CleanupOutcome): result is KeptOutcome {
  return result.outcome === "left-alone" || result.outcome === "kept";
}

/** Shows runs with evidence, asks for confirmation, ends them, and prints the results. */
export async function cleanupRuns(request: CleanupRequest): Promise<number> {
  assertOperator("clean up runs");
  assertScope(request);
  const { dryRun = false, yes = false, json = false } = request;
  const began = performance.now();
  await using localState = await openLocalState();
  const items = localState === null ? [] : await selectItems(localState, request);
  if (request.run !== undefined && items.length === 0) throw new RunNotFound(request.run);
  if (items.length === 0 || localState === null) {
    if (json) print(toJson({ runs: [] }));
    else notice("there is nothing to clean up", "dim");
    return 0;
  }
  if (!json) print(`${items.flatMap(({ lines }) => lines).join("\n")}\n`);
  const endable = items.filter(({ plan }) => plan !== "leave" && !isKept(plan));
  if (dryRun || endable.length === 0) {
    if (json) print(toJson({ runs: items.map((item) => item.json) }));
    const left = items.some(({ plan }) => plan === "leave");
    return dryRun || !left ? 0 : exitCodes.incomplete;
  }
  const question = endable.length === 1 ? "End this run?" : `End these ${endable.length} runs?`;
  if (!(await confirm(question, yes))) {
    notice("nothing was changed", "dim");
    return exitCodes.incomplete;
  }
  // The time limit starts after the confirmation.
  const coordinator = new StopCoordinator(null, yes ? began : performance.now());
  const results = await carryOutPlans(coordinator, items);
  if (json)
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

function assertScope({ run, session, agent, label, allOrphans }: CleanupRequest): void {
  if ([run, session, agent, label, allOrphans].some((scope) => scope !== undefined)) return;
  throw new BadInput(
    "scope",
    "give a scope: --run, --session, --agent, --label, or --all-orphans for every run whose owner is gone. Nothing was changed",
  );
}

/** Stops live runs with StopCoordinator, as every command does; for the others, only the records are ended. */
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
  // Also runs that were just stopped: their records can be ended if no supervisor does.
  const orphaned = stopped
    .filter(({ surveyed, plan }) => surveyed !== null && surveyed.claim !== null && plan === "stop")
    .map(({ runId }) => runId);
  const runIds = [...new Set([...rest, ...orphaned])];
  if (runIds.length === 0) return results;
  // Processes may be left: their records have the outcome.
  const unknown = orphaned.filter((runId) => results.get(runId)?.outcome === "unknown");
  try {
    await endUnderLease(coordinator, runIds, [...rest, ...unknown], results);
  } catch (error) {
    const why = errorMessage(error);
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
  if (survivors.length > 0)
    return { outcome: "survivors", survivors, detail: "its anchor keeps trying to kill them" };
  if (record?.state === "exited")
    return record.emptiness === "proven"
      ? { outcome: "gone", detail: `${runStatusText(record)}, proven empty` }
      : { outcome: "left-alone", detail: unprovenEndText(record) };
  const why = decisions.find((each) => each.runId === runId)?.why;
  return { outcome: "left-alone", detail: why ?? "another supervisor has acquired it meanwhile" };
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
