import type { NewRunEvent } from "../../store/run-event.js";
import type { RunRecord } from "../../store/run-record.js";
import { adopt } from "../adopt.js";
import { endVerified, type Aftermath } from "../aftermath.js";
import { sendStop } from "../cancel.js";
import { concludeAftermath } from "../conclude.js";
import type { Context } from "../context.js";
import { type LiveRun } from "../live-run.js";
import { refuseGate, regain, stopEndedElsewhere } from "../regain.js";
import { resume } from "../resume.js";
import { claim, takeUp, type TakenUp, type Wanted } from "../take-up.js";
import type { Claim, Decision } from "./decide.js";
import { compareImported } from "./imported.js";
import { addressOf } from "./look.js";

/** Carry out a decision about an open record. Null: there is nothing to go on with here. */
export async function act(
  context: Context,
  record: RunRecord,
  ground: Claim,
  decision: Decision,
): Promise<LiveRun | null> {
  const wanted: Wanted = {
    run: addressOf(record),
    from: { ownerInstanceId: record.ownerInstanceId, epoch: record.leaseEpoch },
    expiredForMs: ground.expiredForMs,
    events: (epoch) => [reconcileEvent(context, record, decision, epoch)],
  };
  switch (decision.action) {
    case "leave":
      return null;
    case "continue":
    case "adopt":
    case "terminate":
      return goOn(context, record, wanted, decision);
    case "finalize":
    case "spawn-error":
    case "lose":
    case "sweep":
      return conclude(context, record, wanted, decision);
  }
}

export function reconcileEvent(
  { instanceId, clock }: Pick<Context, "instanceId" | "clock">,
  record: RunRecord,
  { row, action, why }: Decision,
  epoch: number,
): NewRunEvent {
  return {
    runId: record.runId,
    at: clock.wall(),
    rootPid: record.root?.pid ?? null,
    descendants: 0,
    type: "reconcile",
    data: { row, action, why, by: instanceId, from: record.ownerInstanceId, epoch },
  };
}

/** Its anchor lives: attach under a new epoch. Until it has answered, nothing is claimed. */
async function goOn(
  context: Context,
  record: RunRecord,
  wanted: Wanted,
  { action }: Decision,
): Promise<LiveRun | null> {
  const found = await takeUp(context, wanted);
  switch (found.kind) {
    case "attached":
      return attached(context, record, found, action === "terminate");
    case "silent":
    case "unreachable": {
      // Claimed, so it is ours to find out about. Otherwise the next look will tell.
      if (found.lease === null) return null;
      const live = resume(context, record, found.lease, null);
      // Owed until its anchor answers.
      if (action === "terminate") stopOrphan(live);
      context.track(record.runId, regain(live));
      return live;
    }
    case "replaced":
      return null;
    case "ended-elsewhere":
      stopEndedElsewhere(context, found.observer);
      return null;
    case "unwritable":
      found.observer.close();
      throw found.error;
  }
}

function attached(
  context: Context,
  record: RunRecord,
  { link, lease }: Extract<TakenUp, { kind: "attached" }>,
  stop: boolean,
): LiveRun {
  const live = resume(context, record, lease, link.welcome);
  adopt(live, link, true);
  refuseGate(live, link);
  if (stop) stopOrphan(live);
  return live;
}

function stopOrphan(live: LiveRun): void {
  sendStop(live, { reason: "owner-lost", actor: live.context.actor, requestId: "", graceMs: null });
}

/** Nobody answers for it any more: end what is verifiably left, and its record. */
async function conclude(
  context: Context,
  record: RunRecord,
  wanted: Wanted,
  decision: Decision,
): Promise<LiveRun | null> {
  const claimed = await claim(context, wanted);
  if (claimed.kind !== "held") return null;
  const claimedRecord = record.root === null ? await context.store.getRun(record.runId) : record;
  const live = resume(context, claimedRecord ?? record, claimed.lease, null);
  // Until the claim its owner could go on: it may have been let through the gate since the look.
  if (record.root === null && live.traces.root !== null) {
    context.track(record.runId, regain(live));
    return live;
  }
  try {
    const after = await aftermathOf(context, record, live, decision);
    if (concludeAftermath(live, after)) {
      await live.ended.promise;
      return null;
    }
  } catch (error) {
    const { runId } = record;
    context.report({ runId, message: `run ${runId}: cannot find out yet what became of it`, cause: error });
  }
  // What was seen a moment ago is no longer so.
  context.track(record.runId, regain(live));
  return live;
}

async function aftermathOf(
  context: Context,
  record: RunRecord,
  live: LiveRun,
  { row, action, why }: Decision,
): Promise<Aftermath> {
  const { host } = context;
  const remains = await host.remains(addressOf(record));
  // It may have been written since the look.
  if (remains.exit !== null) return { kind: "exit", exit: remains.exit };
  if (action === "spawn-error") return { kind: "never-executed" };
  if (action === "sweep") {
    if (record.imported === null) return { kind: "lost", remains, ...(await endVerified(host, live.traces)) };
    return { kind: "lost", remains, ...(await endImported(context, record, live)) };
  }
  const { swept } = remains;
  if (swept !== null && row !== "other-boot") {
    const { killed, emptiness } = swept;
    return { ...NOTHING_DONE, kind: "lost", remains, emptiness, mode: "launcher", killed };
  }
  const emptiness = row === "other-boot" || row === "swept" ? "proven" : "unproven";
  return { ...NOTHING_DONE, kind: "lost", remains, emptiness, note: why };
}

const NOTHING_DONE = { mode: "none", killed: 0, residue: [], survivors: 0, note: null } as const;

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
  return endVerified(host, { ...live.traces, root: evidence.identity, boundary: null });
}
