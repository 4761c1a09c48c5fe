import type { AnchorLink, RunFiles } from "../../anchor/host-interface.js";
import { defaults } from "../../defaults.js";
import { NotSteering } from "../../errors.js";
import type { RunRecord } from "../../model/run.js";
import type { Lease } from "../../store/runs/contract.js";
import { bindLink, keepGateClosed } from "../attach/bind-link.js";
import { reattach, stopOrphanedAnchor } from "../attach/reattach.js";
import { restoreLiveRun } from "../attach/create-live-run.js";
import { readLauncherSilence } from "../attach/unresponsive-anchor.js";
import { type Decision, reconcileEvent } from "../reconcile-decision.js";
import { finalizeDeadAnchor } from "../end/finalize.js";
import { lostRunRecord, terminalEvents } from "../end/terminal-record.js";
import {
  cleanedByLauncher,
  type DeadAnchorResult,
  killVerifiedTree,
  NO_CLEANUP,
} from "../end/without-anchor.js";
import { type AcquireRequest, type AcquireResult, acquireRun, claimLease } from "../lease/acquire.js";
import { detachRun } from "../run/stop-and-detach.js";
import { sendStop } from "../run/request-stop.js";
import { type LiveRun, runEventBase, type SupervisorContext } from "../run/live-run.js";
import { gatedChange, runAddressOf } from "../run/recorded-identity.js";
import type { ClaimGround } from "./decide.js";
import { finalizeInterruptedOrphan, isInterruptedOrphan } from "./create-orphan-record.js";
import { compareImported } from "./evidence.js";

/** A record that this supervisor may claim. */
interface ClaimableRun {
  readonly record: RunRecord;
  readonly claim: ClaimGround;
  readonly hasDirectory: boolean;
}

const NO_RUN_FILES: RunFiles = { exit: null, leader: null, firstStop: null, swept: null };

/** The result of a decision. */
interface AppliedDecision {
  /** The acquired run; null: there is none. */
  readonly live: LiveRun | null;
  /** The same run, if its anchor did not answer: `reattach` is to be called. */
  readonly unanswered?: LiveRun;
  /** Why nothing was done; null: the decision was carried out. */
  readonly leftReason: string | null;
}

const DONE: AppliedDecision = { live: null, leftReason: null };

function leftAlone(why: string): AppliedDecision {
  return { live: null, leftReason: why };
}

function takenOverBy(by: string | null): AppliedDecision {
  return leftAlone(`another supervisor${by === null ? "" : ` (${by})`} took it over first`);
}

/** Carries out a decision about an open record. `hasDirectory` false: the run has neither files nor a socket. */
export async function applyDecision(
  context: SupervisorContext,
  { record, claim: ground, hasDirectory }: ClaimableRun,
  decision: Decision,
): Promise<AppliedDecision> {
  // Checked after the evidence: another process of this instance may have taken the locks since.
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
      return takeOver(context, record, request, decision, hasDirectory);
    case "lose":
      if (decision.row === "unverifiable" && isInterruptedOrphan(record))
        return finalizeDead(context, record, request, decision);
      return finalizeLost(context, record, request, decision, hasDirectory);
    case "spawn-error":
    case "finalize":
    case "sweep":
      return finalizeDead(context, record, request, decision);
  }
}

/** Attaches to a live anchor under a new epoch. Nothing is claimed before the anchor answers. */
async function takeOver(
  context: SupervisorContext,
  record: RunRecord,
  request: AcquireRequest,
  { action }: Decision,
  hasDirectory: boolean,
): Promise<AppliedDecision> {
  const acquired = hasDirectory
    ? await acquireRun(context, request)
    : ({ kind: "silent", lease: null } as const);
  switch (acquired.kind) {
    case "attached":
      return { live: attachTakenOver(context, record, acquired, action === "terminate"), leftReason: null };
    case "silent":
    case "unreachable": {
      const lease = acquired.lease ?? (await claimUnresponsive(context, request));
      if (lease === null)
        return leftAlone("its anchor is alive but does not answer, and another supervisor took it over");
      const live = restoreLiveRun(context, record, lease, null);
      if (hasDirectory) await recordLauncherSilence(context, live);
      // Pending until the anchor answers; otherwise the run is ended without it.
      if (action === "terminate") stopOrphan(live);
      return { live, unanswered: live, leftReason: null };
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

/** Claims a run whose anchor is alive but does not answer: its socket is lost, or it is stopped. */
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

/** Records the processes of an adopted run whose supervisor died before it could do so. */
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

/** Claims and ends a record in one transaction, for a run without processes. */
async function finalizeLost(
  context: SupervisorContext,
  record: RunRecord,
  request: AcquireRequest,
  decision: Decision,
  hasDirectory: boolean,
): Promise<AppliedDecision> {
  const { store, instanceId, clock, host } = context;
  const { runId, leaseEpoch, root } = record;
  const runFiles = hasDirectory ? await host.readRunFiles(request.run) : NO_RUN_FILES;
  const terminal = lostRunRecord(lostResult(runFiles, record, decision), "sweep");
  const facts = { rootPid: root?.pid ?? null, descendants: 0 };
  const silence = hasDirectory ? await readLauncherSilence(host, request.run, facts) : [];
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
    [...request.events(epoch), ...silence, ...terminalEvents({ runId, at, ...facts }, terminal)],
  );
  return ended ? DONE : takenOverBy(null);
}

function lostResult(
  runFiles: RunFiles,
  record: RunRecord,
  { row, why }: Decision,
): Extract<DeadAnchorResult, { kind: "lost" }> {
  const { swept } = runFiles;
  if (swept !== null && row !== "other-boot") return { ...cleanedByLauncher(swept), kind: "lost", runFiles };
  const emptiness = row === "other-boot" || row === "swept" ? "proven" : "unproven";
  // An imported run never had an anchor, hence no files.
  return {
    ...NO_CLEANUP,
    kind: "lost",
    runFiles: record.imported === null ? runFiles : null,
    emptiness,
    note: why,
  };
}

/** Ends a run without an anchor: kills its verified processes and writes its terminal record. */
async function finalizeDead(
  context: SupervisorContext,
  record: RunRecord,
  request: AcquireRequest,
  decision: Decision,
): Promise<AppliedDecision> {
  const claimed = await claimLease(context, request);
  if (claimed.kind !== "held") return takenOverBy(claimed.kind === "replaced" ? claimed.by : null);
  if (decision.action === "lose") {
    await finalizeInterruptedOrphan(context, request.run, claimed.lease);
    return DONE;
  }
  const claimedRecord = record.root === null ? await context.store.getRun(record.runId) : record;
  const live = restoreLiveRun(context, claimedRecord ?? record, claimed.lease, null);
  // Before the claim, the owner could continue: the command may have passed the gate in the meantime.
  if (record.root === null && live.recordedIdentity.root !== null) {
    context.track(record.runId, reattach(live));
    return { live, leftReason: null };
  }
  await recordLauncherSilence(context, live);
  const ending = endAndFinalize(context, record, live, decision);
  context.track(record.runId, ending);
  // A long grace period of one run must not delay the other runs.
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
    context.report({ runId, message: `run ${runId}: its state cannot be determined yet`, cause: error });
  }
  // The evidence is out of date.
  if (record.root !== null) return reattach(live);
  // Without a recorded root, `reattach` would conclude that the command never ran.
  detachRun(live, new NotSteering(record.runId, "its remaining processes could not be inspected"));
}

async function resolveDeadRun(
  context: SupervisorContext,
  record: RunRecord,
  live: LiveRun,
  { action }: Decision,
): Promise<DeadAnchorResult> {
  const { host } = context;
  const runFiles = await host.readRunFiles(runAddressOf(record));
  // The exit file may have been written since the evidence was gathered.
  if (runFiles.exit !== null) return { kind: "exit", exit: runFiles.exit };
  if (action === "spawn-error") return { kind: "never-executed" };
  // The exit file has disappeared since the evidence was gathered.
  if (action === "finalize") return { kind: "anchor-alive" };
  if (record.imported === null)
    return { kind: "lost", runFiles, ...(await killVerifiedTree(host, live.recordedIdentity)) };
  return { kind: "lost", runFiles: null, ...(await killImported(context, record, live)) };
}

/** Compares the process once more, because the pid may belong to another process by now. */
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
