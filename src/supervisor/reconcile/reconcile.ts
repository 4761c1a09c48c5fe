import { defaults } from "../../defaults.js";
import type { LocalInstance } from "../../anchor/host.js";
import { OPEN_STATES, type RunRecord } from "../../store/run-record.js";
import { atMost } from "../at-most.js";
import type { Context } from "../context.js";
import type { LiveRun } from "../live-run.js";
import { act } from "./act.js";
import type { Decision } from "./decide.js";
import { examine, surroundings } from "./examine.js";
import { tellForgotten } from "./forgotten.js";
import { noteLeft, type Looked } from "./left.js";
import { takeUpStrays } from "./strays.js";

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
 * Look at every run that has no end on record, is not held here, and has no healthy lease of another's; decide what each is, by evidence; do that. What is
 * left alone stays as it is, so doing it twice changes nothing.
 */
export async function reconcile(context: Context, scope: Scope = {}): Promise<Reconciled> {
  const { store, host, clock } = context;
  const around = await surroundings(host, context, await store.now(), {
    unreachableMs: (runId) => context.left.unreachableMs(runId, clock.now()),
    sleepless: store.shared,
  });
  await tellForgotten(context, around.instances);
  const { records, looked } = await lookFor(context, scope);
  const examined = await examine(host, clock, around, records);
  const acted = await atMost(
    defaults.recoverAtOnce,
    examined.map(({ record, claim, decision }) => async () => {
      const wanted: Decided = { runId: record.runId, ...overruled(decision, scope) };
      if (claim === null) return { live: null, decided: wanted };
      const { live, left } = context.live.has(record.runId)
        ? { live: null, left: "it was taken up here meanwhile" }
        : await act(context, record, claim, wanted);
      // Report what was done, not what was decided.
      return { live, decided: left === null ? wanted : ({ ...wanted, action: "leave", why: left } as const) };
    }),
  );
  const decisions = acted.map(({ decided }) => decided);
  await noteLeft(context, examined, looked);
  const strays =
    scope.runIds === undefined
      ? await takeUpStrays(context, mineOrDead(context, scope, around.instances), (each) =>
          decisions.push(each),
        )
      : [];
  return { decisions, taken: [...acted.map(({ live }) => live), ...strays].filter((live) => live !== null) };
}

async function lookFor(
  context: Context,
  { own, runIds }: Scope,
): Promise<{ readonly records: readonly RunRecord[]; readonly looked: Looked }> {
  const { store, host, instanceId, stateId, live, beginning } = context;
  const isHeld = ({ runId }: RunRecord): boolean => live.has(runId) || beginning.has(runId);
  if (own === true) {
    const mine = await store.listRuns({ states: OPEN_STATES, ownerInstanceId: instanceId });
    return { records: mine.filter((record) => !isHeld(record)), looked: "some" };
  }
  const near = await store.listUnattended(instanceId, { ...host.machine, stateId });
  const far = await lookFar(context, near, runIds !== undefined);
  const found = [...near, ...(far ?? [])].filter((record) => !isHeld(record));
  if (runIds === undefined) return { records: found, looked: far === null ? "here" : "everywhere" };
  return { records: found.filter(({ runId }) => runIds.includes(runId)), looked: "some" };
}

/** Runs of hosts that have been silent for very long. Null: it was not asked, because it costs much and changes slowly. */
async function lookFar(
  { store, clock, left }: Context,
  near: readonly RunRecord[],
  asked: boolean,
): Promise<readonly RunRecord[] | null> {
  // A store of one's own has no others.
  if (!store.shared) return [];
  const now = clock.now();
  if (!asked && !left.mayLookFar(now)) return null;
  const known = new Set(near.map(({ runId }) => runId));
  const silent = await store.listRuns({ states: OPEN_STATES, silentForMs: defaults.hostLostMs });
  const far = silent.filter(({ runId }) => !known.has(runId));
  if (!asked)
    left.lookedFar(new Set(far.map(({ runId }) => runId)), now + clock.spread(defaults.silentLookMs));
  return far;
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
