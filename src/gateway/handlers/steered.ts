import { defaults } from "../../defaults.js";
import { NotSteering, StdinClosed, StdinFull } from "../../errors.js";
import type { RunRecord } from "../../store/run-record.js";
import type { Run, Supervisor } from "../../supervisor/api.js";
import type { Callers } from "../callers.js";

/** The run, held by this gateway. */
export function held(supervisor: Supervisor, record: RunRecord): Run {
  const run = supervisor.run(record.runId);
  if (run !== null) return run;
  if (record.state === "exited") throw new StdinClosed(record.runId, "it has ended");
  throw new NotSteering(record.runId, `${record.ownerInstanceId} holds it, not this gateway`);
}

/** The same, to be typed into by whoever asks. */
export function typedInto(supervisor: Supervisor, callers: Callers, record: RunRecord): Run {
  const run = held(supervisor, record);
  mayBeTypedInto(run, callers);
  mustHaveRoom(run);
  return run;
}

/** What a program does not read is kept for it, by the gateway: not without end. */
export function mustHaveRoom({ runId, waitingInput }: Run): void {
  if (waitingInput > defaults.inputWaitingBytes) throw new StdinFull(runId, waitingInput);
}

/** A caller counts the bytes it has sent: those of others in between would be taken for its own. */
export function mayBeTypedInto(run: Run, callers: Callers): void {
  mayBeSteered(run, callers);
  if (run.callerBound) callers.overtake(run.runId);
}

/** A service that was made of a foreground run is everybody's once its caller has left. */
export function mayBeSteered({ runId, callerBound, service }: Run, callers: Callers): void {
  if (callerBound && (service === null || callers.has(runId)))
    throw new NotSteering(runId, "it runs in the foreground, and its input is its caller's alone");
}
