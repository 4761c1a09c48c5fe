import { NotSteering, StdinClosed } from "../../errors.js";
import type { RunRecord } from "../../store/run-record.js";
import type { Run, Supervisor } from "../../supervisor/api.js";

/** The run, held by this gateway. */
export function held(supervisor: Supervisor, record: RunRecord): Run {
  const run = supervisor.run(record.runId);
  if (run !== null) return run;
  if (record.state === "exited") throw new StdinClosed(record.runId, "it has ended");
  throw new NotSteering(record.runId, `${record.ownerInstanceId} holds it, not this gateway`);
}

/** The same, to be steered by whoever asks. */
export function steered(supervisor: Supervisor, record: RunRecord): Run {
  const run = held(supervisor, record);
  mayBeSteered(run);
  return run;
}

/** A caller counts the bytes it has sent: those of others in between would be taken for its own. */
export function mayBeSteered({ runId, callerBound, service }: Run): void {
  if (callerBound && service === null)
    throw new NotSteering(runId, "it runs in the foreground, and its input is its caller's alone");
}
