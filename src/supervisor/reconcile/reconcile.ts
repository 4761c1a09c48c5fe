import type { LocalInstance } from "../../anchor/host-interface.js";
import type { Clock } from "../../async/clock.js";
import { runConcurrently } from "../../async/concurrency.js";
import { defaults } from "../../defaults.js";
import type { NewRunEvent } from "../../model/run-event.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import type { ReconcileScope } from "../api.js";
import { type Decided, type Decision, reconcileEvent } from "../reconcile-decision.js";
import { restoreRolledBackRecords } from "../lease/restore-record.js";
import type { LiveRun, SupervisorContext } from "../run/live-run.js";
import { reattach } from "../attach/reattach.js";
import { applyDecision } from "./apply.js";
import {
  type ClaimGround,
  decide,
  type Evidence,
  judgeLease,
  type ReconcileContext,
  UNREADABLE,
} from "./decide.js";
import { type EvidenceSource, gatherEvidence } from "./evidence.js";
import { recoverOrphans } from "./orphans.js";
import type { PassReach, UnreachableTracker } from "./unreachable.js";

export interface Classified {
  readonly record: RunRecord;
  readonly decision: Decision;
  /** Null: the run is left alone without evidence. */
  readonly claim: ClaimGround | null;
  readonly evidence: Evidence | null;
}

export async function buildReconcileContext(
  host: EvidenceSource,
  { instanceId, stateId }: Pick<SupervisorContext, "instanceId" | "stateId">,
  now: number,
  options: Partial<ReconcileContext> = {},
): Promise<ReconcileContext> {
  const { unreachableMs = () => 0, sharedClock = false } = options;
  const instances = options.instances ?? (await listInstancesById(host));
  return {
    instanceId,
    stateId,
    machine: host.machine,
    now,
    instances,
    unreachableMs,
    sharedClock,
  };
}

async function listInstancesById(host: EvidenceSource): Promise<ReadonlyMap<string, LocalInstance>> {
  return new Map((await host.listInstances()).map((each) => [each.instanceId, each] as const));
}

/** Gathers evidence and decides for each record. Changes nothing. */
export async function classifyRecords(
  host: EvidenceSource,
  clock: Clock,
  reconcileContext: ReconcileContext,
  records: readonly RunRecord[],
): Promise<readonly Classified[]> {
  const standings = records.map((record) => ({ record, standing: judgeLease(record, reconcileContext) }));
  const open = standings.flatMap(({ record, standing }) => (standing.kind === "open" ? [record] : []));
  const evidenceByRun = await gatherEvidence(host, clock, reconcileContext.instances, open);
  return standings.map(({ record, standing }): Classified => {
    if (standing.kind === "decided")
      return { record, decision: standing.decision, claim: null, evidence: null };
    const { claim } = standing;
    if (standing.kind === "given-up") return { record, decision: standing.decision, claim, evidence: null };
    const evidence = evidenceByRun.get(record.runId);
    const unreachableMs = reconcileContext.unreachableMs(record.runId);
    const decision =
      evidence === undefined
        ? UNREADABLE
        : decide(record, claim, evidence, reconcileContext.machine, unreachableMs);
    return { record, decision, claim, evidence: evidence ?? null };
  });
}

export interface ReconcileOptions extends ReconcileScope {
  /** Only runs of this instance. */
  readonly own?: boolean;
}

export interface ReconcileResult {
  readonly decisions: readonly Decided[];
  /** The runs that this supervisor acquired. */
  readonly acquired: readonly LiveRun[];
}

/**
 * Decides by evidence, and acts, for every open run that this supervisor does not own and that has no healthy lease of
 * another one. Idempotent.
 */
export async function reconcile(
  context: SupervisorContext,
  tracker: UnreachableTracker,
  scope: ReconcileOptions = {},
): Promise<ReconcileResult> {
  const { store, host, clock } = context;
  const instances = await listInstancesById(host);
  await restoreRolledBackRecords(context, instances);
  const { records, reach } = await selectRecords(context, tracker, scope);
  // The time is needed for leases only. A lease that is renewed from here on cannot be taken.
  const now = records.length === 0 ? 0 : await store.now();
  const reconcileContext = await buildReconcileContext(host, context, now, {
    instances,
    unreachableMs: (runId) => tracker.unreachableMs(runId, clock.now()),
    sharedClock: store.shared,
  });
  const classified = await classifyRecords(host, clock, reconcileContext, records);
  const unattached: LiveRun[] = [];
  try {
    const apply = (some: readonly Classified[], atOnce: number) =>
      runConcurrently(
        atOnce,
        some.map((each) => () => applyTo(context, each, scope, unattached)),
      );
    const [withoutFiles, withFiles] = [
      classified.filter(({ evidence }) => evidence?.noDirectory === true),
      classified.filter(({ evidence }) => evidence?.noDirectory !== true),
    ];
    const applied = [
      // Such a run costs little: runs that are ended at the same time share a transaction.
      ...(await apply(withoutFiles, defaults.recordedAtOnce)),
      ...(await apply(withFiles, defaults.recoverAtOnce)),
    ];
    const decisions = applied.map(({ decided }) => decided);
    await recordLeftAlone(context, tracker, classified, reach);
    const orphans =
      scope.runIds === undefined
        ? await recoverOrphans(context, ownOrDeadInstances(context, scope, instances), (each) =>
            decisions.push(each),
          )
        : [];
    return {
      decisions,
      acquired: [...applied.map(({ live }) => live), ...orphans].filter((live) => live !== null),
    };
  } finally {
    // Last: thousands of anchors that do not answer must not delay the other runs.
    for (const live of unattached) context.track(live.facts.runId, reattach(live));
  }
}

interface AppliedRecord {
  readonly live: LiveRun | null;
  /** What `apply` did, which may differ from the decision. */
  readonly decided: Decided;
}

/** Carries out the decision about a run. Adds the run to `unattached` if its anchor did not answer. */
async function applyTo(
  context: SupervisorContext,
  { record, claim, decision, evidence }: Classified,
  scope: ReconcileOptions,
  unattached: LiveRun[],
): Promise<AppliedRecord> {
  const wanted: Decided = { runId: record.runId, ...withTermination(decision, scope) };
  if (claim === null) return { live: null, decided: wanted };
  const leave = (why: string): AppliedRecord => ({
    live: null,
    decided: { ...wanted, action: "leave", why },
  });
  if (context.runs.has(record.runId)) return leave("this supervisor acquired it in the meantime");
  const hasDirectory = evidence?.noDirectory !== true;
  const { live, unanswered, leftReason } = await applyDecision(
    context,
    { record, claim, hasDirectory },
    wanted,
  );
  if (leftReason !== null) return leave(leftReason);
  if (unanswered && hasDirectory) context.track(record.runId, reattach(unanswered));
  else if (unanswered) unattached.push(unanswered);
  return { live, decided: wanted };
}

async function selectRecords(
  context: SupervisorContext,
  tracker: UnreachableTracker,
  { own, runIds }: ReconcileOptions,
): Promise<{ readonly records: readonly RunRecord[]; readonly reach: PassReach }> {
  const { store, host, instanceId, stateId, runs, inserting } = context;
  const isHeld = ({ runId }: RunRecord): boolean => runs.has(runId) || inserting.has(runId);
  if (own === true) {
    const mine = await store.listRuns({ states: OPEN_RUN_STATES, ownerInstanceId: instanceId });
    return { records: mine.filter((record) => !isHeld(record)), reach: "some" };
  }
  const near = await store.listUnattendedRuns(instanceId, { ...host.machine, stateId });
  const far = await listFarRuns(context, tracker, near, runIds !== undefined);
  const found = [...near, ...(far ?? [])].filter((record) => !isHeld(record));
  if (runIds === undefined) return { records: found, reach: far === null ? "here" : "everywhere" };
  return { records: found.filter(({ runId }) => runIds.includes(runId)), reach: "some" };
}

/** Runs of hosts without a sign of life for a day. Null: not queried, because the query is expensive and rarely changes. */
async function listFarRuns(
  { store, clock }: SupervisorContext,
  tracker: UnreachableTracker,
  near: readonly RunRecord[],
  always: boolean,
): Promise<readonly RunRecord[] | null> {
  // A store that is not shared has no other hosts.
  if (!store.shared) return [];
  const now = clock.now();
  if (!always && !tracker.isFarPassDue(now)) return null;
  const known = new Set(near.map(({ runId }) => runId));
  const silent = await store.listRuns({ states: OPEN_RUN_STATES, silentForMs: defaults.hostLostMs });
  const far = silent.filter(({ runId }) => !known.has(runId));
  if (!always)
    tracker.recordFarPass(new Set(far.map(({ runId }) => runId)), now + clock.jitter(defaults.silentPollMs));
  return far;
}

function withTermination(decision: Decision, { terminate }: ReconcileOptions): Decision {
  if (terminate !== true || (decision.action !== "adopt" && decision.action !== "continue")) return decision;
  return { ...decision, action: "terminate", why: `${decision.why}; its stop was requested` };
}

function ownOrDeadInstances(
  { instanceId }: SupervisorContext,
  { own }: ReconcileOptions,
  instances: ReadonlyMap<string, LocalInstance>,
): readonly string[] {
  if (own === true) return [instanceId];
  return [...instances.values()]
    .filter((each) => each.instanceId === instanceId || !each.alive)
    .map((each) => each.instanceId);
}

/**
 * Writes one event when a run is left alone for the first time, not one per pass. A run with a healthy lease is the
 * normal case and gets none.
 */
async function recordLeftAlone(
  context: SupervisorContext,
  tracker: UnreachableTracker,
  classified: readonly Classified[],
  reach: PassReach,
): Promise<void> {
  const leftAlone = classified.filter(
    ({ decision: { action, row } }) => action === "leave" && row !== "healthy",
  );
  tracker.update(
    reach,
    new Map(leftAlone.map(({ record, decision }) => [record.runId, decision] as const)),
    context.clock.now(),
  );
  const events: NewRunEvent[] = [];
  for (const { record, decision } of leftAlone) {
    if (!tracker.isChanged(record.runId, decision)) continue;
    const event = reconcileEvent(context, record, decision, record.leaseEpoch);
    if (!(await isLastEvent(context, event))) events.push(event);
    context.report({
      runId: record.runId,
      message: `run ${record.runId} is left alone: ${decision.why}`,
      cause: null,
    });
  }
  if (events.length > 0) await context.store.appendEvents(events);
}

/** An earlier process of this instance may have written the same event. */
async function isLastEvent({ store }: SupervisorContext, event: NewRunEvent): Promise<boolean> {
  const [last] = await store.listEvents({ runId: event.runId, newestFirst: true, limit: 1 });
  return last?.type === "reconcile" && JSON.stringify(last.data) === JSON.stringify(event.data);
}
