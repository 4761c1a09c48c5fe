import { defaults } from "../../defaults.js";
import { NotSteering, StdinClosed, StdinFull } from "../../errors.js";
import type { RunRecord } from "../../model/run.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import type { ForegroundClients } from "./foreground-clients.js";

/** The run, held by this gateway. */
export function requireHeldRun(supervisor: Supervisor, record: RunRecord): Run {
  const run = supervisor.run(record.runId);
  if (run !== null) return run;
  if (record.state === "exited") throw new StdinClosed(record.runId, "it has ended");
  throw new NotSteering(record.runId, `${record.ownerInstanceId} holds it, not this gateway`);
}

/** The run, held by this gateway, if the requester may write to its input. */
export function requireInputRun(
  supervisor: Supervisor,
  foregroundClients: ForegroundClients,
  record: RunRecord,
): Run {
  const run = requireHeldRun(supervisor, record);
  claimInput(run, foregroundClients);
  assertStdinRoom(run);
  return run;
}

/** The gateway keeps input that the program has not read, up to a limit. */
export function assertStdinRoom({ runId, waitingInput }: Run): void {
  if (waitingInput > defaults.inputWaitingBytes) throw new StdinFull(runId, waitingInput);
}

/** A caller counts the bytes that it has sent, so input of other clients makes its offset invalid. */
export function claimInput(run: Run, foregroundClients: ForegroundClients): void {
  assertSteerable(run, foregroundClients);
  if (run.callerBound) foregroundClients.markInputTaken(run.runId);
}

/** A foreground run takes input only from its caller, unless it became a service and its caller disconnected. */
export function assertSteerable(
  { runId, callerBound, hasCaller, service }: Run,
  foregroundClients: ForegroundClients,
): void {
  if (callerBound && (service === null || hasCaller || foregroundClients.isAttached(runId)))
    throw new NotSteering(runId, "it runs in the foreground, and only its caller may write to it");
}
