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
  /** Null: the run is left alone without evidence. */
  readonly claim: ClaimGround | null;
  readonly evidence: Evidence | null;
}

export async function buildReconcileContext(
  host: EvidenceSource,
  { instanceId, stateId }: Pick<SupervisorContext, "instanceId" | "stateId">,
  now: number,
  { unreachableMs = () => 0, sharedClock = false }: Partial<ReconcileContext> = {},
): Promise<ReconcileContext> {
  const instances = new Map((await host.listInstances()).map((each) => [each.instanceId, each] as const));
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
