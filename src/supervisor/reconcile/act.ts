import type { AnchorLink } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import { NotSteering } from "../../errors.js";
import type { NewRunEvent } from "../../store/run-event.js";
import type { RunRecord } from "../../store/run-record.js";
import type { Lease } from "../../store/store.js";
import { adopt, boundaryOf } from "../adopt.js";
import { launcherSilence } from "../unresponsive-anchor.js";
import { endVerified, NOTHING_DONE, sweptAway, type Aftermath } from "../aftermath.js";
import { sendStop } from "../cancel.js";
import { concludeAftermath } from "../conclude.js";
import { finalEvents, lostFinale, type Finale } from "../finale.js";
import type { Context } from "../context.js";
import { letGo } from "../let-go.js";
import { eventFacts, type LiveRun } from "../live-run.js";
import { refuseGate, regain, stopEndedElsewhere } from "../regain.js";
import { resume } from "../resume.js";
import { claim, takeUp, type TakenUp, type Wanted } from "../take-up.js";
import type { Claim, Decision } from "./decide.js";
import { compareImported } from "./imported.js";
import { addressOf } from "./look.js";

/** What came of a decision. */
export interface Acted {
  /** Null: there is nothing to go on with here. */
  readonly live: LiveRun | null;
  /** Why nothing was done after all; null: what was decided was done. */
  readonly left: string | null;
}

const DONE: Acted = { live: null, left: null };

function left(why: string): Acted {
  return { live: null, left: why };
}

function takenBy(by: string | null): Acted {
  return left(`another supervisor${by === null ? "" : ` (${by})`} took it over first`);
}

/** Carry out a decision about an open record. */
export async function act(
  context: Context,
  record: RunRecord,
  ground: Claim,
  decision: Decision,
): Promise<Acted> {
  // After the look: a lease that another process of this instance has taken by then shows that it holds the locks.
  if (decision.action !== "leave" && !(await context.incarnation.isCurrent()))
    return left("another process of this instance has taken over");
  const wanted: Wanted = {
    run: addressOf(record),
    from: { ownerInstanceId: record.ownerInstanceId, epoch: record.leaseEpoch },
    expiredForMs: ground.expiredForMs,
    events: (epoch) => [reconcileEvent(context, record, decision, epoch, context.process)],
  };
  switch (decision.action) {
    case "leave":
      return DONE;
    case "continue":
    case "adopt":
    case "terminate":
      return goOn(context, record, wanted, decision);
    case "lose":
      return endOnRecord(
        context,
        record,
        wanted,
        lostFinale(await lostAs(context, record, decision), "sweep"),
      );
    case "spawn-error":
    case "finalize":
    case "sweep":
      return conclude(context, record, wanted, decision);
  }
}

export function reconcileEvent(
  { instanceId, clock }: Pick<Context, "instanceId" | "clock">,
  record: RunRecord,
  { row, action, why }: Decision,
  epoch: number,
  process?: string,
): NewRunEvent {
  return {
    runId: record.runId,
    at: clock.wall(),
    rootPid: record.root?.pid ?? null,
    descendants: 0,
    type: "reconcile",
    data: {
      row,
      action,
      why,
      by: instanceId,
      from: record.ownerInstanceId,
      epoch,
      ...(process === undefined ? {} : { process }),
    },
  };
}

/** Its anchor lives: attach under a new epoch. Until it has answered, nothing is claimed. */
async function goOn(
  context: Context,
  record: RunRecord,
  wanted: Wanted,
  { action }: Decision,
): Promise<Acted> {
  const found = await takeUp(context, wanted);
  switch (found.kind) {
    case "attached":
      return { live: attached(context, record, found, action === "terminate"), left: null };
    case "silent":
    case "unreachable": {
      const lease = found.lease ?? (await claimSilent(context, wanted));
      if (lease === null) return left("its anchor lives but does not answer, and another supervisor took it");
      const live = resume(context, record, lease, null);
      await noteSilence(context, live);
      // Owed until its anchor answers, or carried out without it.
      if (action === "terminate") stopOrphan(live);
      context.track(record.runId, regain(live));
      return { live, left: null };
    }
    case "replaced":
      return takenBy(found.by);
    case "ended-elsewhere":
      stopEndedElsewhere(context, found.observer);
      return DONE;
    case "unwritable":
      found.observer.close();
      throw found.error;
  }
}

/** It lives but does not answer: its socket is lost, or it is stopped. It is watched from here on, and its stop carried out. */
async function claimSilent(context: Context, wanted: Wanted): Promise<Lease | null> {
  const claimed = await claim(context, wanted);
  return claimed.kind === "held" ? claimed.lease : null;
}

function attached(
  context: Context,
  record: RunRecord,
  { link, lease }: Extract<TakenUp, { kind: "attached" }>,
  stop: boolean,
): LiveRun {
  const live = resume(context, record, lease, link.welcome);
  adopt(live, link, true);
  context.track(record.runId, noteSilence(context, live));
  noteIdentities(live, record, link);
  refuseGate(live, link);
  if (stop) stopOrphan(live);
  return live;
}

/** Adopted out of another run, and its supervisor died before it could write down what it was. */
function noteIdentities({ journal }: LiveRun, record: RunRecord, { welcome }: AnchorLink): void {
  if (record.root !== null || welcome.phase === "gated") return;
  const { anchor, root, boundary } = welcome;
  const { tier } = boundary;
  journal.note({ to: "gated", anchor, root, processGroupId: root.pid, boundary: boundaryOf(boundary), tier });
}

async function noteSilence({ host }: Context, live: LiveRun): Promise<void> {
  const { rootPid, descendants } = eventFacts(live, 0);
  const events = await launcherSilence(host, live.facts.address, { rootPid, descendants });
  if (events.length > 0) live.journal.note(null, events);
}

function stopOrphan(live: LiveRun): void {
  sendStop(live, { reason: "owner-lost", actor: live.context.actor, requestId: "", graceMs: null });
}

/** Nothing is left of it but its record. Claimed and ended in one; if somebody was faster, that one has done it. */
async function endOnRecord(
  context: Context,
  record: RunRecord,
  wanted: Wanted,
  finale: Finale,
): Promise<Acted> {
  const { store, instanceId, clock } = context;
  const { runId, leaseEpoch, root } = record;
  const at = clock.wall();
  const epoch = leaseEpoch + 1;
  const ended = await store.concludeRun(
    {
      runId,
      from: wanted.from,
      ownerInstanceId: instanceId,
      epoch,
      leaseMs: 0,
      expiredForMs: wanted.from.ownerInstanceId === instanceId ? null : wanted.expiredForMs,
    },
    { to: "exited", at, ...finale.ending },
    [
      ...wanted.events(epoch),
      ...(await launcherSilence(context.host, wanted.run, { rootPid: root?.pid ?? null, descendants: 0 })),
      ...finalEvents({ runId, at, rootPid: root?.pid ?? null, descendants: 0 }, finale),
    ],
  );
  return ended ? DONE : takenBy(null);
}

async function lostAs(
  { host }: Context,
  record: RunRecord,
  { row, why }: Decision,
): Promise<Extract<Aftermath, { kind: "lost" }>> {
  const remains = await host.remains(addressOf(record));
  const { swept } = remains;
  if (swept !== null && row !== "other-boot") return { ...sweptAway(swept), kind: "lost", remains };
  const emptiness = row === "other-boot" || row === "swept" ? "proven" : "unproven";
  // An imported one never had an anchor that could have left something.
  return {
    ...NOTHING_DONE,
    kind: "lost",
    remains: record.imported === null ? remains : null,
    emptiness,
    note: why,
  };
}

/** Nobody answers for it any more: end what is verifiably left, and its record. */
async function conclude(
  context: Context,
  record: RunRecord,
  wanted: Wanted,
  decision: Decision,
): Promise<Acted> {
  const claimed = await claim(context, wanted);
  if (claimed.kind !== "held") return takenBy(claimed.kind === "replaced" ? claimed.by : null);
  const claimedRecord = record.root === null ? await context.store.getRun(record.runId) : record;
  const live = resume(context, claimedRecord ?? record, claimed.lease, null);
  // Until the claim its owner could go on: it may have been let through the gate since the look.
  if (record.root === null && live.traces.root !== null) {
    context.track(record.runId, regain(live));
    return { live, left: null };
  }
  await noteSilence(context, live);
  const ending = end(context, record, live, decision);
  context.track(record.runId, ending);
  // One whose processes are given a long grace must not keep the others waiting.
  await context.clock.pause(defaults.sweptWaitMs, ending);
  return { live: context.live.has(record.runId) ? live : null, left: null };
}

async function end(context: Context, record: RunRecord, live: LiveRun, decision: Decision): Promise<void> {
  try {
    const after = await aftermathOf(context, record, live, decision);
    if (concludeAftermath(live, after)) return void (await live.ended.promise);
  } catch (error) {
    const { runId } = record;
    context.report({ runId, message: `run ${runId}: cannot find out yet what became of it`, cause: error });
  }
  // What was seen a moment ago is no longer so.
  if (record.root !== null) return regain(live);
  // Without a root on record, to be looked after like a run of ours would mean that nothing of it ever ran.
  letGo(live, new NotSteering(record.runId, "what is left of it could not be looked at"));
}

async function aftermathOf(
  context: Context,
  record: RunRecord,
  live: LiveRun,
  { action }: Decision,
): Promise<Aftermath> {
  const { host } = context;
  const remains = await host.remains(addressOf(record));
  // Also when it has been written since the look.
  if (remains.exit !== null) return { kind: "exit", exit: remains.exit };
  if (action === "spawn-error") return { kind: "never-executed" };
  // It was there a moment ago.
  if (action === "finalize") return { kind: "anchor-alive" };
  if (record.imported === null) return { kind: "lost", remains, ...(await endVerified(host, live.traces)) };
  return { kind: "lost", remains: null, ...(await endImported(context, record, live)) };
}

/** Compared once more, with the identity that is then signalled: what matched a moment ago may be another process now. */
async function endImported(context: Context, { imported }: RunRecord, live: LiveRun) {
  const { host } = context;
  const [evidence] = imported === null ? [] : await host.inspect([imported.pid]);
  const matches =
    imported !== null && evidence !== undefined && compareImported(imported, evidence).kind === "matches";
  if (!matches)
    return {
      ...NOTHING_DONE,
      emptiness: "unproven",
      note: "it was gone before it could be signalled",
    } as const;
  return endVerified(host, {
    ...live.traces,
    root: evidence.identity,
    machine: host.machine,
    boundary: null,
  });
}
