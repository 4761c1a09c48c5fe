import type { AnchorLink, SpawnFailure, StartSpec, StreamName } from "../../anchor/host-interface.js";
import { onAbort } from "../../async/abort.js";
import { defaults } from "../../defaults.js";
import { BadInput, HoldfastError, NotSteering, RunExists, SpawnFailed } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import { newLeaseId, newRunId } from "../../model/ids.js";
import { newRunRecord } from "../../store/runs/apply-change.js";
import type { NewRun } from "../../store/runs/contract.js";
import type { CommandInput, SpawnOptions } from "../api.js";
import { bindLink, keepGateClosed } from "../attach/bind-link.js";
import { reattach } from "../attach/reattach.js";
import { createLiveRun } from "../attach/create-live-run.js";
import { finalizeSpawnFailure } from "../end/finalize.js";
import { closeRun, detachRun } from "../run/stop-and-detach.js";
import { requestStop } from "../run/request-stop.js";
import { isInactive, type LiveRun, type RunFacts, type SupervisorContext } from "../run/live-run.js";
import { gatedChange } from "../run/recorded-identity.js";
import { planSpawn, type SpawnPlan } from "./plan.js";

/**
 * Starts a run. The command is executed only after its record, with the identity of its process, is committed. So a
 * supervisor that dies leaves either no process, or one that its successor finds by the record.
 */
export async function spawn(
  context: SupervisorContext,
  input: CommandInput,
  options: SpawnOptions,
): Promise<LiveRun> {
  if (options.signal?.aborted === true)
    throw new BadInput("signal", "the signal was aborted before the call; nothing was recorded or started");
  const plan = planSpawn(context, input, options);
  for (;;)
    try {
      return await spawnPlanned(context, plan, options.signal);
    } catch (error) {
      // A collision of random ids: try another one.
      if (!(error instanceof RunExists) || plan.runId !== null) throw error;
    }
}

async function spawnPlanned(
  context: SupervisorContext,
  plan: SpawnPlan,
  signal: AbortSignal | undefined,
): Promise<LiveRun> {
  const { live, spec, run } = prepareRun(context, plan);
  if (signal !== undefined) stopOnAbort(live, signal);
  if (context.closing !== null) closeRun(live, context.closing);

  let link: AnchorLink;
  try {
    link = await context.host.start(spec);
  } catch (error) {
    await recordUnstarted(live, run);
    finalizeSpawnFailure(live, toSpawnFailure(error));
    throw await awaitSpawnFailure(live, error);
  }
  if (isInactive(live)) link.close();
  assertNotDetached(live);
  bindLink(live, link, true);
  try {
    await recordGated(live, run, link);
  } catch (error) {
    throw failBeforeGo(live, link, error);
  }
  // In other states the run was stopped, or has ended: the anchor keeps the gate closed.
  if (live.state.name === "starting") {
    // Taken now: when the anchor reports the start, a short command may have ended.
    live.startedAt = { at: live.context.clock.wall(), recorded: false };
    link.go();
  }
  await live.started.promise;

  assertNotDetached(live);
  if (live.state.name === "exited" && live.state.outcome.exit.reason === "spawn-error")
    throw await awaitSpawnFailure(live, null);
  return live;
}

/** The run may be detached during any await, by `close` or by an owner with a newer epoch. */
function assertNotDetached({ detachedBy }: LiveRun): void {
  if (detachedBy !== null) throw detachedBy;
}

/** Prepares a run that has no record yet. */
function prepareRun(
  context: SupervisorContext,
  plan: SpawnPlan,
): { live: LiveRun; spec: StartSpec; run: NewRun } {
  // Its anchor is taken by `start`, within the same turn of the event loop.
  const warm = plan.canStartWarm ? context.host.nextWarmRun() : null;
  const runId = plan.runId ?? warm ?? newRunId();
  if (context.runs.has(runId)) throw new RunExists(runId);
  const leaseId = newLeaseId();
  // Built first, so that an invalid environment is refused before anything is started.
  const spec = plan.start(runId, leaseId);
  const run = plan.record(runId, leaseId);
  context.inserting.add(runId);
  const live = createLiveRun(
    context,
    runFactsOf(context, plan, spec, leaseId),
    { runId, ownerInstanceId: run.ownerInstanceId, epoch: run.leaseEpoch },
    newRunRecord(run, 0),
    { recorded: false },
  );
  if (spec.io === "pty") live.size = spec.size;
  if (plan.input !== null) writeAllInput(live, plan.input);
  return { live, spec, run };
}

/** Inserts the record of a run that has no process. */
async function recordUnstarted(live: LiveRun, run: NewRun): Promise<void> {
  assertNotDetached(live);
  try {
    await live.context.store.insertRun(run, defaults.leaseMs);
  } catch (error) {
    releaseUnrecorded(live, error);
    throw error;
  }
  onRecorded(live);
}

function onRecorded(live: LiveRun): void {
  live.context.inserting.delete(live.facts.runId);
  live.writeQueue.release();
  live.recorded.resolve();
}

/** Ends a run that has no record. */
function releaseUnrecorded(live: LiveRun, error: unknown): void {
  detachRun(live, error instanceof HoldfastError ? error : toSpawnFailed(live, toSpawnFailure(error), error));
}

/**
 * Writes the complete input before any other writer. Not awaited: the program may read it late or never.
 */
function writeAllInput({ stdin }: LiveRun, input: string): void {
  stdin.write(input).catch(() => undefined);
  stdin.close().catch(() => undefined);
}

function runFactsOf(
  { instanceId }: SupervisorContext,
  plan: SpawnPlan,
  spec: StartSpec,
  leaseId: string,
): RunFacts {
  const withholdAt = (stream: StreamName): number | null =>
    spec[stream].policy === "back-pressure" ? spec[stream].boundBytes : null;
  return {
    runId: spec.runId,
    address: { instanceId, runId: spec.runId },
    leaseId,
    command: plan.command,
    attempt: { cwd: spec.cwd, command: spec.argv[0] ?? "" },
    policy: plan.policy,
    deadlines: plan.deadlines,
    service: plan.service,
    withholdAt: { stdout: withholdAt("stdout"), stderr: withholdAt("stderr") },
  };
}

/** Rejects unless the record is committed, with the root's identity, and its lease is still valid. */
async function recordGated(live: LiveRun, run: NewRun, link: AnchorLink): Promise<void> {
  const { context, facts } = live;
  const change = gatedChange(link.welcome);
  await context.store.insertRun(run, defaults.leaseMs, [], change);
  live.writeQueue.committed(change);
  onRecorded(live);
  // The store accepted a write, so the leases can be renewed, too.
  if (context.leases.fenced) await context.leases.renew();
  if (context.leases.fenced) throw new NotSteering(facts.runId, "its lease could not be renewed");
}

/** Without a confirmed commit there is no GO. An anchor with a closed gate that loses its owner ends the child unexecuted. */
function failBeforeGo(live: LiveRun, link: AnchorLink, error: unknown): unknown {
  const { context, facts } = live;
  const message = `the record of run ${facts.runId} could not be committed (${errorMessage(error)}); the command did not run`;
  live.failure = { errno: 0, step: "record", message };
  if (context.inserting.has(facts.runId)) {
    context.track(facts.runId, resolveUncertainInsert(live, link, error));
    return error;
  }
  if (!isInactive(live)) {
    live.link = null;
    link.close();
    // In the background: the store may fail for a while.
    context.track(facts.runId, reattach(live));
  }
  return toSpawnFailed(live, live.failure, error);
}

/**
 * The insert failed, or was committed without an answer. A record of this run is finalized; without one the run is
 * forgotten. If the store does not answer, reconciliation finds the record, or the directory.
 */
async function resolveUncertainInsert(live: LiveRun, link: AnchorLink, error: unknown): Promise<void> {
  const { context, facts } = live;
  keepGateClosed(live, link);
  const record = await context.store.getRun(facts.runId).catch(() => undefined);
  if (isInactive(live) && live.detachedBy !== null) return;
  if (record?.leaseId === facts.leaseId) return onRecorded(live);
  if (record !== undefined) {
    await context.clock.sleep(defaults.closeSlackMs, live.endKnown.promise);
    // Another process of this instance may have recorded the directory meanwhile.
    if (live.state.name === "exited" && (await context.incarnation.isCurrent()))
      await context.host.removeRunDirectory(facts.address);
  }
  releaseUnrecorded(live, error);
}

/** Waits for the terminal record, but not for a failing store. */
async function awaitSpawnFailure(live: LiveRun, cause: unknown): Promise<SpawnFailed> {
  const { clock } = live.context;
  await clock.sleep(defaults.recordWaitMs, Promise.race([live.ended.promise, live.writeQueue.firstFailure]));
  return toSpawnFailed(live, live.failure ?? toSpawnFailure(cause), cause);
}

function toSpawnFailed(live: LiveRun, failure: SpawnFailure, cause: unknown): SpawnFailed {
  live.outputSeen = true;
  if (cause instanceof SpawnFailed) return cause;
  const { errno, step, message } = failure;
  const failed = new SpawnFailed(live.facts.runId, errno, step, message);
  if (cause !== null) failed.cause = cause;
  return failed;
}

function toSpawnFailure(error: unknown): SpawnFailure {
  if (error instanceof SpawnFailed) return { errno: error.errno, step: error.step, message: error.message };
  return {
    errno: 0,
    step: "anchor",
    message: `no anchor could be started (${errorMessage(error)}); the command did not run`,
  };
}

function stopOnAbort(live: LiveRun, signal: AbortSignal): void {
  const stop = (): void => live.context.track(live.facts.runId, requestStop(live, {}));
  if (signal.aborted) stop();
  else live.removeAbortListener = onAbort(signal, stop);
}
