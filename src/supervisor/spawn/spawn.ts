import type { AnchorLink, SpawnFailure, StartSpec, StreamName } from "../../anchor/host.js";
import { onAbort } from "../../async/abort.js";
import { defaults } from "../../defaults.js";
import { BadInput, NotSteering, RunExists, SpawnFailed } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import { newLeaseId, newRunId } from "../../model/ids.js";
import { newRunRecord } from "../../store/runs/apply-change.js";
import type { CommandInput, SpawnOptions } from "../api.js";
import { bindLink, reattach } from "../attach/attach.js";
import { createLiveRun } from "../attach/create-live-run.js";
import { finalizeSpawnFailure } from "../end/finalize.js";
import { closeRun, requestStop } from "../run/stop-and-detach.js";
import { isInactive, type LiveRun, type RunFacts, type SupervisorContext } from "../run/live-run.js";
import { gatedChange } from "../run/recorded-identity.js";
import { planSpawn, type SpawnPlan } from "./plan.js";

/**
 * Record, gate, record, GO: the command is executed only after its process is recorded, so that a supervisor that dies
 * at any point leaves nothing, or a process that its successor can find.
 */
export async function spawn(
  context: SupervisorContext,
  input: CommandInput,
  options: SpawnOptions,
): Promise<LiveRun> {
  const { signal } = options;
  if (signal?.aborted === true)
    throw new BadInput("signal", "the signal was aborted before the call; nothing was recorded or started");
  const { live, spec } = await recordRun(context, planSpawn(context, input, options));
  if (signal !== undefined) stopOnAbort(live, signal);
  if (context.closing !== null) closeRun(live, context.closing);

  let link: AnchorLink;
  try {
    link = await context.host.start(spec);
  } catch (error) {
    finalizeSpawnFailure(live, toSpawnFailure(error));
    throw await awaitSpawnFailure(live, error);
  }
  if (isInactive(live)) link.close();
  assertNotDetached(live);
  bindLink(live, link, true);
  try {
    await commitGated(live, link);
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

async function recordRun(
  context: SupervisorContext,
  plan: SpawnPlan,
): Promise<{ live: LiveRun; spec: StartSpec }> {
  for (;;) {
    const runId = plan.runId ?? newRunId();
    const leaseId = newLeaseId();
    // Built first, so that an invalid environment is refused before anything is recorded.
    const spec = plan.start(runId, leaseId);
    context.inserting.add(runId);
    try {
      const fresh = plan.record(runId, leaseId);
      const lease = await context.store.insertRun(fresh, defaults.leaseMs);
      const live = createLiveRun(
        context,
        runFactsOf(context, plan, spec, leaseId),
        lease,
        newRunRecord(fresh, 0),
      );
      if (spec.io === "pty") live.size = spec.size;
      if (plan.input !== null) writeAllInput(live, plan.input);
      return { live, spec };
    } catch (error) {
      // A collision of random ids: try another one.
      if (error instanceof RunExists && plan.runId === null) continue;
      throw error;
    } finally {
      context.inserting.delete(runId);
    }
  }
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

/** Rejects unless the root's identity is recorded and the lease is still valid. */
async function commitGated(live: LiveRun, link: AnchorLink): Promise<void> {
  const { runId } = live.facts;
  const change = gatedChange(link.welcome);
  const saved = await live.context.store.saveRun(live.writeQueue.lease, change);
  if (saved) live.writeQueue.committed(change);
  else if (!isInactive(live)) throw new NotSteering(runId, "another process ended its record");
  // The store accepted a write, so the leases can be renewed, too.
  if (live.context.leases.fenced) await live.context.leases.renew();
  if (live.context.leases.fenced) throw new NotSteering(runId, "its lease could not be renewed");
}

/** Without a confirmed commit there is no GO. An anchor with a closed gate that loses its owner ends the child unexecuted. */
function failBeforeGo(live: LiveRun, link: AnchorLink, error: unknown): SpawnFailed {
  const { runId } = live.facts;
  const message = `the record of run ${runId} could not be committed (${errorMessage(error)}); the command did not run`;
  live.failure = { errno: 0, step: "record", message };
  if (!isInactive(live)) {
    live.link = null;
    link.close();
    // In the background: the store may fail for a while.
    live.context.track(runId, reattach(live));
  }
  return toSpawnFailed(live, live.failure, error);
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
