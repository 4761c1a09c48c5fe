import type { AnchorLink } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import { NotSteering } from "../../errors.js";
import type { RunRecord } from "../../model/run.js";
import { bindLink } from "../attach/bind-link.js";
import { gatedChange, runAddressOf } from "../run/recorded-identity.js";
import { restoreLiveRun } from "../attach/create-live-run.js";
import { keepGateClosed, reattach, stopOrphanedAnchor } from "../attach/reattach.js";
import { readLauncherSilence } from "../attach/unresponsive-anchor.js";
import {
  cleanedByLauncher,
  type DeadAnchorResult,
  killVerifiedTree,
  NO_CLEANUP,
} from "../end/dead-anchor.js";
import { finalizeDeadAnchor } from "../end/finalize.js";
import { lostRunRecord, terminalEvents, type TerminalRecord } from "../end/terminal-record.js";
import { type AcquireRequest, type AcquireResult, acquireRun, claimLease } from "../lease/acquire.js";
import { detachRun } from "../run/lifecycle.js";
import { type LiveRun, runEventBase, type SupervisorContext } from "../run/live-run.js";
import { sendStop } from "../run/request-stop.js";
import type { ClaimGround } from "./decide.js";
import type { Decision } from "../decision.js";
import { compareImported } from "./imported-evidence.js";
import { type AppliedDecision, DONE, leftAlone, reconcileEvent, takenOverBy } from "./applied-decision.js";
import type { Lease } from "../../store/runs/store.js";

/** Carry out a decision about an open record. */
export async function applyDecision(
  context: SupervisorContext,
  record: RunRecord,
  ground: ClaimGround,
  decision: Decision,
): Promise<AppliedDecision> {
  // After the look: a lease that another process of this instance has taken by then shows that it holds the locks.
  if (decision.action !== "leave" && !(await context.incarnation.isCurrent()))
    return leftAlone("another process of this instance has taken over");
  const request: AcquireRequest = {
    run: runAddressOf(record),
    from: { ownerInstanceId: record.ownerInstanceId, epoch: record.leaseEpoch },
    expiredForMs: ground.expiredForMs,
    events: (epoch) => [reconcileEvent(context, record, decision, epoch, context.incarnationId)],
  };
  switch (decision.action) {
    case "leave":
      return DONE;
    case "continue":
    case "adopt":
    case "terminate":
      return takeOver(context, record, request, decision);
    case "lose":
      return finalizeRecord(
        context,
        record,
        request,
        lostRunRecord(await lostResult(context, record, decision), "sweep"),
      );
    case "spawn-error":
    case "finalize":
    case "sweep":
      return finalizeDead(context, record, request, decision);
  }
}

/** Its anchor lives: attach under a new epoch. Until it has answered, nothing is claimed. */
async function takeOver(
  context: SupervisorContext,
  record: RunRecord,
  request: AcquireRequest,
  { action }: Decision,
): Promise<AppliedDecision> {
  const acquired = await acquireRun(context, request);
  switch (acquired.kind) {
    case "attached":
      return { live: attachTakenOver(context, record, acquired, action === "terminate"), leftReason: null };
    case "silent":
    case "unreachable": {
      const lease = acquired.lease ?? (await claimUnresponsive(context, request));
      if (lease === null)
        return leftAlone("its anchor lives but does not answer, and another supervisor took it");
      const live = restoreLiveRun(context, record, lease, null);
      await recordLauncherSilence(context, live);
      // Owed until its anchor answers, or carried out without it.
      if (action === "terminate") stopOrphan(live);
      context.track(record.runId, reattach(live));
      return { live, leftReason: null };
    }
    case "replaced":
      return takenOverBy(acquired.by);
    case "ended-elsewhere":
      stopOrphanedAnchor(context, acquired.observer);
      return DONE;
    case "unwritable":
      acquired.observer.close();
      throw acquired.error;
  }
}

/** It lives but does not answer: its socket is lost, or it is stopped. It is watched from here on, and its stop carried out. */
async function claimUnresponsive(context: SupervisorContext, request: AcquireRequest): Promise<Lease | null> {
  const claimed = await claimLease(context, request);
  return claimed.kind === "held" ? claimed.lease : null;
}

function attachTakenOver(
  context: SupervisorContext,
  record: RunRecord,
  { link, lease }: Extract<AcquireResult, { kind: "attached" }>,
  stop: boolean,
): LiveRun {
  const live = restoreLiveRun(context, record, lease, link.welcome);
  bindLink(live, link, true);
  context.track(record.runId, recordLauncherSilence(context, live));
  recordIdentities(live, record, link);
  keepGateClosed(live, link);
  if (stop) stopOrphan(live);
  return live;
}

/** Adopted out of another run, and its supervisor died before it could write down what it was. */
function recordIdentities({ writeQueue }: LiveRun, record: RunRecord, { welcome }: AnchorLink): void {
  if (record.root !== null || welcome.phase === "gated") return;
  writeQueue.enqueue(gatedChange(welcome));
}

async function recordLauncherSilence({ host }: SupervisorContext, live: LiveRun): Promise<void> {
  const { rootPid, descendants } = runEventBase(live, 0);
  const events = await readLauncherSilence(host, live.facts.address, { rootPid, descendants });
  if (events.length > 0) live.writeQueue.enqueue(null, events);
}

function stopOrphan(live: LiveRun): void {
  sendStop(live, { reason: "owner-lost", actor: live.context.actor, requestId: "", graceMs: null });
}

/** Nothing is left of it but its record. Claimed and ended in one; if somebody was faster, that one has done it. */
async function finalizeRecord(
  context: SupervisorContext,
  record: RunRecord,
  request: AcquireRequest,
  terminal: TerminalRecord,
): Promise<AppliedDecision> {
  const { store, instanceId, clock } = context;
  const { runId, leaseEpoch, root } = record;
  const at = clock.wall();
  const epoch = leaseEpoch + 1;
  const ended = await store.acquireAndFinalizeRun(
    {
      runId,
      from: request.from,
      ownerInstanceId: instanceId,
      epoch,
      leaseMs: 0,
      expiredForMs: request.from.ownerInstanceId === instanceId ? null : request.expiredForMs,
    },
    { to: "exited", at, ...terminal.outcome },
    [
      ...request.events(epoch),
      ...(await readLauncherSilence(context.host, request.run, {
        rootPid: root?.pid ?? null,
        descendants: 0,
      })),
      ...terminalEvents({ runId, at, rootPid: root?.pid ?? null, descendants: 0 }, terminal),
    ],
  );
  return ended ? DONE : takenOverBy(null);
}

async function lostResult(
  { host }: SupervisorContext,
  record: RunRecord,
  { row, why }: Decision,
): Promise<Extract<DeadAnchorResult, { kind: "lost" }>> {
  const runFiles = await host.readRunFiles(runAddressOf(record));
  const { swept } = runFiles;
  if (swept !== null && row !== "other-boot") return { ...cleanedByLauncher(swept), kind: "lost", runFiles };
  const emptiness = row === "other-boot" || row === "swept" ? "proven" : "unproven";
  // An imported one never had an anchor that could have left something.
  return {
    ...NO_CLEANUP,
    kind: "lost",
    runFiles: record.imported === null ? runFiles : null,
    emptiness,
    note: why,
  };
}

/** Nobody answers for it any more: end what is verifiably left, and its record. */
async function finalizeDead(
  context: SupervisorContext,
  record: RunRecord,
  request: AcquireRequest,
  decision: Decision,
): Promise<AppliedDecision> {
  const claimed = await claimLease(context, request);
  if (claimed.kind !== "held") return takenOverBy(claimed.kind === "replaced" ? claimed.by : null);
  const claimedRecord = record.root === null ? await context.store.getRun(record.runId) : record;
  const live = restoreLiveRun(context, claimedRecord ?? record, claimed.lease, null);
  // Until the claim its owner could go on: it may have been let through the gate since the look.
  if (record.root === null && live.recordedIdentity.root !== null) {
    context.track(record.runId, reattach(live));
    return { live, leftReason: null };
  }
  await recordLauncherSilence(context, live);
  const ending = endAndFinalize(context, record, live, decision);
  context.track(record.runId, ending);
  // One whose processes are given a long grace must not keep the others waiting.
  await context.clock.sleep(defaults.sweptWaitMs, ending);
  return { live: context.runs.has(record.runId) ? live : null, leftReason: null };
}

async function endAndFinalize(
  context: SupervisorContext,
  record: RunRecord,
  live: LiveRun,
  decision: Decision,
): Promise<void> {
  try {
    const deadAnchor = await resolveDeadRun(context, record, live, decision);
    if (finalizeDeadAnchor(live, deadAnchor)) return void (await live.ended.promise);
  } catch (error) {
    const { runId } = record;
    context.report({ runId, message: `run ${runId}: cannot find out yet what became of it`, cause: error });
  }
  // What was seen a moment ago is no longer so.
  if (record.root !== null) return reattach(live);
  // Without a root on record, to be looked after like a run of ours would mean that nothing of it ever ran.
  detachRun(live, new NotSteering(record.runId, "what is left of it could not be looked at"));
}

async function resolveDeadRun(
  context: SupervisorContext,
  record: RunRecord,
  live: LiveRun,
  { action }: Decision,
): Promise<DeadAnchorResult> {
  const { host } = context;
  const runFiles = await host.readRunFiles(runAddressOf(record));
  // Also when it has been written since the look.
  if (runFiles.exit !== null) return { kind: "exit", exit: runFiles.exit };
  if (action === "spawn-error") return { kind: "never-executed" };
  // It was there a moment ago.
  if (action === "finalize") return { kind: "anchor-alive" };
  if (record.imported === null)
    return { kind: "lost", runFiles, ...(await killVerifiedTree(host, live.recordedIdentity)) };
  return { kind: "lost", runFiles: null, ...(await killImported(context, record, live)) };
}

/** Compared once more, with the identity that is then signalled: what matched a moment ago may be another process now. */
async function killImported(context: SupervisorContext, { imported }: RunRecord, live: LiveRun) {
  const { host } = context;
  const [evidence] = imported === null ? [] : await host.inspectProcesses([imported.pid]);
  const matches =
    imported !== null && evidence !== undefined && compareImported(imported, evidence).kind === "matches";
  if (!matches)
    return {
      ...NO_CLEANUP,
      emptiness: "unproven",
      note: "it was gone before it could be signalled",
    } as const;
  return killVerifiedTree(host, {
    ...live.recordedIdentity,
    root: evidence.identity,
    machine: host.machine,
    boundary: null,
  });
}
