import { NotSteering, StdinClosed } from "../../errors.js";
import type { RunRecord } from "../../store/run-record.js";
import type { Run, Supervisor } from "../../supervisor/api.js";

/** The run, to be steered by this gateway. */
export function steered(supervisor: Supervisor, record: RunRecord): Run {
  const run = supervisor.run(record.runId);
  if (run !== null) return run;
  if (record.state === "exited") throw new StdinClosed(record.runId, "it has ended");
  throw new NotSteering(record.runId, `${record.ownerInstanceId} holds it, not this gateway`);
}
