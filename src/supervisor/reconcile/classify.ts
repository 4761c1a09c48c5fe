import type { Clock } from "../../async/clock.js";
import type { RunRecord } from "../../model/run.js";
import type { SupervisorContext } from "../run/live-run.js";
import {
  type ClaimGround,
  decide,
  type Evidence,
  judgeLease,
  type ReconcileContext,
  UNREADABLE,
} from "./decide.js";
import type { Decision } from "../decision.js";
import { type EvidenceSource, gatherEvidence } from "./evidence.js";

export interface Classified {
  readonly record: RunRecord;
  readonly decision: Decision;
  /** Null: it is left alone without a look. */
  readonly claim: ClaimGround | null;
  readonly evidence: Evidence | null;
}

export async function buildReconcileContext(
  host: EvidenceSource,
  { instanceId, stateId }: Pick<SupervisorContext, "instanceId" | "stateId">,
  now: number,
  { unreachableMs = () => 0, sharedClock: sleepless = false }: Partial<ReconcileContext> = {},
): Promise<ReconcileContext> {
  const instances = new Map((await host.listInstances()).map((each) => [each.instanceId, each] as const));
  return {
    instanceId: instanceId,
    stateId,
    machine: host.machine,
    now,
    instances,
    unreachableMs,
    sharedClock: sleepless,
  };
}

/** What each of these runs is, and what is to be done about it. Looks only. */
export async function classifyRecords(
  host: EvidenceSource,
  clock: Clock,
  reconcileContext: ReconcileContext,
  records: readonly RunRecord[],
): Promise<readonly Classified[]> {
  const standings = records.map((record) => ({ record, stands: judgeLease(record, reconcileContext) }));
  const open = standings.flatMap(({ record, stands: leaseStanding }) =>
    leaseStanding.kind === "open" ? [record] : [],
  );
  const evidenceByRun = await gatherEvidence(host, clock, reconcileContext.instances, open);
  return standings.map(({ record, stands: leaseStanding }): Classified => {
    if (leaseStanding.kind === "decided")
      return { record, decision: leaseStanding.decision, claim: null, evidence: null };
    const { claim } = leaseStanding;
    if (leaseStanding.kind === "given-up")
      return { record, decision: leaseStanding.decision, claim, evidence: null };
    const evidence = evidenceByRun.get(record.runId);
    const unreachableMs = reconcileContext.unreachableMs(record.runId);
    const decision =
      evidence === undefined
        ? UNREADABLE
        : decide(record, claim, evidence, reconcileContext.machine, unreachableMs);
    return { record, decision, claim, evidence: evidence ?? null };
  });
}
