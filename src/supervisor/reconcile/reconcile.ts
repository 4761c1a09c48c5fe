import { defaults } from "../../defaults.js";
import type { LocalInstance } from "../../anchor/host.js";
import type { RunRecord, RunStateName } from "../../store/run-record.js";
import { atMost } from "../at-most.js";
import type { Context } from "../context.js";
import type { LiveRun } from "../live-run.js";
import { act } from "./act.js";
import { decide, standing, type Claim, type Decision, type Surroundings } from "./decide.js";
import { noteLeft } from "./left.js";
import { look } from "./look.js";
import { takeUpStrays } from "./strays.js";

const OPEN: readonly RunStateName[] = ["starting", "running", "exiting"];

export interface Scope {
  /** Only what an earlier process of this instance left. */
  readonly own?: boolean;
  /** Only these. */
  readonly runIds?: readonly string[];
  /** Stop what would be adopted. */
  readonly terminate?: boolean;
}

export interface Decided extends Decision {
  readonly runId: string;
}

export interface Reconciled {
  readonly decisions: readonly Decided[];
  /** What this supervisor holds now and did not before. */
  readonly taken: readonly LiveRun[];
}

/**
 * Look at every run that has no end on record and is not held here; decide what each is, by evidence; do that. What is
 * left alone stays as it is, so doing it twice changes nothing.
 */
export async function reconcile(context: Context, scope: Scope = {}): Promise<Reconciled> {
  const { store, host, clock } = context;
  const instances = new Map((await host.instances()).map((each) => [each.instanceId, each] as const));
  const around: Surroundings = {
    me: context.instanceId,
    machine: host.machine,
    now: await store.now(),
    instances,
    unreachableMs: (runId) => context.left.unreachableMs(runId, clock.now()),
  };
  const records = await recordsIn(context, scope);
  const decisions: Decided[] = [];
  const open: { readonly record: RunRecord; readonly claim: Claim }[] = [];
  for (const record of records) {
    const found = standing(record, around);
    if (found.kind === "open") open.push({ record, claim: found.claim });
    else decisions.push({ runId: record.runId, ...found.decision });
    if (found.kind === "given-up") await act(context, record, found.claim, found.decision);
  }

  const sights = await look(
    host,
    clock,
    instances,
    open.map(({ record }) => record),
  );
  const taken: (LiveRun | null)[] = await atMost(
    defaults.recoverAtOnce,
    open.map(({ record, claim }) => async () => {
      const sight = sights.get(record.runId);
      if (sight === undefined || context.live.has(record.runId)) return null;
      const decision = overruled(decide(record, claim, sight, host.machine), scope);
      decisions.push({ runId: record.runId, ...decision });
      return act(context, record, claim, decision);
    }),
  );
  await noteLeft(context, records, decisions);
  const strays =
    scope.runIds === undefined ? await takeUpStrays(context, mineOrDead(context, scope, instances)) : [];
  return { decisions, taken: [...taken, ...strays].filter((live) => live !== null) };
}

async function recordsIn(context: Context, { own, runIds }: Scope): Promise<readonly RunRecord[]> {
  const { store, instanceId, live, beginning } = context;
  const records = await store.listRuns({
    states: OPEN,
    ...(own === true ? { ownerInstanceId: instanceId } : {}),
  });
  const wanted = runIds === undefined ? null : new Set(runIds);
  return records.filter(
    ({ runId }) => !live.has(runId) && !beginning.has(runId) && wanted?.has(runId) !== false,
  );
}

function overruled(decision: Decision, { terminate }: Scope): Decision {
  if (terminate !== true || (decision.action !== "adopt" && decision.action !== "continue")) return decision;
  return { ...decision, action: "terminate", why: `${decision.why}; its end was asked for` };
}

function mineOrDead(
  { instanceId }: Context,
  { own }: Scope,
  instances: ReadonlyMap<string, LocalInstance>,
): readonly string[] {
  if (own === true) return [instanceId];
  return [...instances.values()]
    .filter((each) => each.instanceId === instanceId || !each.alive)
    .map((each) => each.instanceId);
}
