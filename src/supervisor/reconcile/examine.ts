import type { RunRecord } from "../../store/run-record.js";
import type { Clock } from "../clock.js";
import type { Context } from "../context.js";
import {
  decide,
  standing,
  UNREAD,
  type Claim,
  type Decision,
  type Sight,
  type Surroundings,
} from "./decide.js";
import { look, type Looker } from "./look.js";

export interface Examined {
  readonly record: RunRecord;
  readonly decision: Decision;
  /** Null: it is left alone without a look. */
  readonly claim: Claim | null;
  readonly sight: Sight | null;
}

export async function surroundings(
  host: Looker,
  { instanceId, stateId }: Pick<Context, "instanceId" | "stateId">,
  now: number,
  { unreachableMs = () => 0, sleepless = false }: Partial<Surroundings> = {},
): Promise<Surroundings> {
  const instances = new Map((await host.instances()).map((each) => [each.instanceId, each] as const));
  return { me: instanceId, stateId, machine: host.machine, now, instances, unreachableMs, sleepless };
}

/** What each of these runs is, and what is to be done about it. Looks only. */
export async function examine(
  host: Looker,
  clock: Clock,
  around: Surroundings,
  records: readonly RunRecord[],
): Promise<readonly Examined[]> {
  const stood = records.map((record) => ({ record, stands: standing(record, around) }));
  const open = stood.flatMap(({ record, stands }) => (stands.kind === "open" ? [record] : []));
  const sights = await look(host, clock, around.instances, open);
  return stood.map(({ record, stands }): Examined => {
    if (stands.kind === "decided") return { record, decision: stands.decision, claim: null, sight: null };
    const { claim } = stands;
    if (stands.kind === "given-up") return { record, decision: stands.decision, claim, sight: null };
    const sight = sights.get(record.runId);
    const unreachableMs = around.unreachableMs(record.runId);
    const decision =
      sight === undefined ? UNREAD : decide(record, claim, sight, around.machine, unreachableMs);
    return { record, decision, claim, sight: sight ?? null };
  });
}
