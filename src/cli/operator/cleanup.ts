import { BadInput, RunNotFound } from "../../errors.js";
import { sanitizeLine } from "../../output/sanitize.js";
import type { RunRecord } from "../../store/run-record.js";
import { openStoreForReading } from "../../store/open.js";
import { openSupervisor } from "../../supervisor/open.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import { NOBODY } from "../../supervisor/reconcile/decide.js";
import { addressOf } from "../../supervisor/reconcile/look.js";
import { cliActor } from "../actor.js";
import { say } from "../complain.js";
import { formatDuration } from "../duration.js";
import { exitCodes } from "../exit-code.js";
import { mustBeOperator, needGateway } from "../gateway/connect.js";
import { toJson } from "../json.js";
import { paletteFor } from "../palette.js";
import { stopCode } from "../process/act.js";
import { findRecord } from "../runs/find-record.js";
import { print } from "../runs/print.js";
import { statusOf } from "../runs/status.js";
import { asOutcome, cancelFound, report, type Outcome } from "./cancel.js";
import { confirm } from "./confirm.js";
import { openObservatory, type Observatory } from "./observer.js";
import { survey, type Surveyed } from "./survey.js";

export interface CleanupRequest {
  readonly run: string | null;
  readonly session: string | null;
  readonly agent: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly allOrphans: boolean;
  readonly dryRun: boolean;
  readonly yes: boolean;
  readonly json: boolean;
}

type Result = Outcome | { readonly outcome: "left-alone"; readonly detail: string };

/** Show what is left and why it is ours, ask, end it, and say what became of each. */
export async function cleanupRuns(request: CleanupRequest): Promise<number> {
  mustBeOperator("clean up runs");
  mustHaveScope(request);
  await using observatory = await openObservatory();
  await using store =
    observatory === null ? null : await openStoreForReading(observatory.directory.storePath);
  const found = observatory === null || store === null ? [] : await leftovers(observatory, store, request);
  if (request.run !== null && store === null) throw new RunNotFound(request.run);
  if (found.length === 0 || observatory === null) {
    if (request.json) print(toJson({ runs: [] }));
    else say("there is nothing to clean up", "dim");
    return 0;
  }
  if (!request.json) print(`${found.flatMap(lines).join("\n")}\n`);
  const endable = found.filter(canEnd);
  if (request.dryRun || endable.length === 0) {
    if (request.json) print(toJson({ runs: found.map(asJson) }));
    return request.dryRun || endable.length === found.length ? 0 : exitCodes.incomplete;
  }
  const question = endable.length === 1 ? "End this run?" : `End these ${endable.length} runs?`;
  if (!(await confirm(question, request.yes))) {
    say("nothing was changed", "dim");
    return exitCodes.incomplete;
  }
  const results = await endAll(observatory, found);
  if (request.json)
    print(toJson({ runs: found.map((each) => ({ ...asJson(each), ...results.get(each.record.runId) })) }));
  else for (const [runId, result] of results) tell(runId, result);
  const codes = [...results.values()].map(({ outcome }) => stopCode(outcome));
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

async function leftovers(
  observatory: Observatory,
  store: NonNullable<Awaited<ReturnType<typeof openStoreForReading>>>,
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

function canEnd({ answers, elsewhere, decision }: Surveyed): boolean {
  return answers || elsewhere || decision.action !== "leave";
}

/** Who answers is stopped by key; of the others, what is verified is ended under a lease of its own. */
async function endAll(
  observatory: Observatory,
  found: readonly Surveyed[],
): Promise<ReadonlyMap<string, Result>> {
  const results = new Map<string, Result>();
  for (const each of found)
    if (!canEnd(each)) results.set(each.record.runId, { outcome: "left-alone", detail: whyOf(each) });
  await Promise.all(
    found
      .filter(({ answers }) => answers)
      .map(async ({ record }) => {
        const run = { runId: record.runId, address: addressOf(record), record, unread: null };
        results.set(record.runId, await cancelFound(observatory, run, null));
      }),
  );
  const others = found.filter(({ elsewhere }) => elsewhere);
  if (others.length > 0) await handOver(others, results);
  const rest = found
    .filter((each) => canEnd(each) && !each.answers && !each.elsewhere)
    .map(({ record }) => record.runId);
  // Also those that were just stopped: their records can be ended when nobody else will.
  const orphaned = found
    .filter(({ claim, elsewhere }) => claim !== null && !elsewhere)
    .map(({ record }) => record.runId);
  const runIds = [...new Set([...rest, ...orphaned])];
  if (runIds.length > 0) await endUnderLease(runIds, rest, results);
  return results;
}

/** Through the gateway, which hands it to those that have them. */
async function handOver(others: readonly Surveyed[], results: Map<string, Result>): Promise<void> {
  const { client } = await needGateway();
  await Promise.all(
    others.map(async ({ record: { runId } }) =>
      results.set(runId, asOutcome(await client.kill({ params: { runId } }))),
    ),
  );
}

async function endUnderLease(
  runIds: readonly string[],
  rest: readonly string[],
  results: Map<string, Result>,
): Promise<void> {
  await using supervisor = await openSupervisor({
    actor: cliActor(),
    onProblem: ({ message }) => say(message, "yellow"),
  });
  const { decisions, runs } = await supervisor.reconcile({ runIds, terminate: true });
  await Promise.all(runs.map((run) => ended(run)));
  for (const runId of rest) results.set(runId, await becameOf(supervisor, runId, decisions));
}

/** Its end, or the word that there are survivors. */
async function ended(run: Run): Promise<void> {
  let waiting = true;
  const over = run.wait().then(
    () => undefined,
    () => undefined,
  );
  void over.then(() => (waiting = false));
  while (waiting && run.survivors.length === 0)
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

function tell(runId: string, result: Result): void {
  if (result.outcome === "left-alone") print(`${runId}: ${sanitizeLine(result.detail)}\n`);
  else report(runId, result);
}

function lines(each: Surveyed): string[] {
  const { record, decision, evidence, answers, elsewhere } = each;
  const { bold, dim } = paletteFor(1);
  const owner = record.ownerInstanceId === NOBODY ? "nobody (imported)" : record.ownerInstanceId;
  const plan = answers
    ? "stop it through its anchor"
    : elsewhere
      ? "hand it to the gateway that has it, to be stopped there"
      : (PLANS[decision.action] ?? decision.action);
  return [
    `${bold(record.runId)}  ${statusOf(record)}  ${sanitizeLine(record.command)}`,
    `  ${dim(`owner ${owner}: ${whyOf(each)}`)}`,
    ...(evidence.length === 0
      ? ["  no live process of it is verified"]
      : evidence.map((fact) => `  ours: ${sanitizeLine(fact)}`)),
    `  would: ${plan}`,
  ];
}

/** A lease outlives its holder, by half a minute at most: until then nobody may write the record. */
function whyOf({ decision, ownerAlive, leaseMs }: Surveyed): string {
  if (decision.row !== "healthy" || ownerAlive !== false) return decision.why;
  return `its owner is gone, but its record cannot be ended before its lease expires, in ${formatDuration(leaseMs)}`;
}

const PLANS: Readonly<Record<string, string>> = {
  leave: "leave it alone",
  sweep: "end the verified processes, then its record",
  finalize: "end its record as its exit file says",
  "spawn-error": "end its record: it never ran",
  lose: "end its record as lost; nobody is signalled",
};

function asJson({ record, decision, evidence, answers }: Surveyed): object {
  const { runId, state, command, ownerInstanceId, labels, sessionKey, agentId } = record;
  return { runId, state, command, ownerInstanceId, labels, sessionKey, agentId, decision, evidence, answers };
}
