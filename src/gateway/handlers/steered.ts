import { defaults } from "../../defaults.js";
import { NotSteering, StdinClosed, StdinFull } from "../../errors.js";
import type { RunRecord } from "../../model/run.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import type { ForegroundClients } from "../foreground/foreground-clients.js";

/** The run, held by this gateway. */
export function requireHeldRun(supervisor: Supervisor, record: RunRecord): Run {
  const run = supervisor.run(record.runId);
  if (run !== null) return run;
  if (record.state === "exited") throw new StdinClosed(record.runId, "it has ended");
  throw new NotSteering(record.runId, `${record.ownerInstanceId} holds it, not this gateway`);
}

/** The same, to be typed into by whoever asks. */
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

/** What a program does not read is kept for it, by the gateway: not without end. */
export function assertStdinRoom({ runId, waitingInput }: Run): void {
  if (waitingInput > defaults.inputWaitingBytes) throw new StdinFull(runId, waitingInput);
}

/** A caller counts the bytes it has sent: those of others in between would be taken for its own. */
export function claimInput(run: Run, foregroundClients: ForegroundClients): void {
  assertSteerable(run, foregroundClients);
  if (run.callerBound) foregroundClients.markInputTaken(run.runId);
}

/** A service that was made of a foreground run is everybody's once its caller has left. */
export function assertSteerable(
  { runId, callerBound, service }: Run,
  foregroundClients: ForegroundClients,
): void {
  if (callerBound && (service === null || foregroundClients.isAttached(runId)))
    throw new NotSteering(runId, "it runs in the foreground, and its input is its caller's alone");
}
