import { connectOrStart } from "../client/connect.js";
import { resolveRunId } from "../client/resolve-run.js";
import { exitCodes } from "../print/exit-code.js";
import { runStatusText } from "../print/run-status.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { printRemark, StopCoordinator } from "./stop-coordinator.js";
import {
  runStopOperation,
  forEachRun,
  stopResultJson,
  stopOutcome,
  printStopOutcome,
  stopExitCode,
} from "./stop-run.js";

interface RemoveOptions {
  /** Stop runs that are open, instead of refusing to remove them. */
  readonly force: boolean;
  readonly json: boolean;
}

export async function removeRuns(runs: readonly string[], options: RemoveOptions): Promise<number> {
  return forEachRun(runs, (wanted) => removeRun(wanted, options));
}

async function removeRun(wanted: string, { force, json }: RemoveOptions): Promise<number> {
  if (!force) {
    const connection = await connectOrStart();
    const runId = await resolveRunId(connection, wanted);
    const run = await connection.client.getRun({ params: { runId } });
    if (run.state !== "exited") {
      notice(`${runId} is ${runStatusText(run)} and was not removed; stop it first, or use --force`, "red");
      return exitCodes.refused;
    }
  }
  return stopAndRemove(wanted, json);
}

/** Removes a run and stops it if it is open. Only a gateway can remove it: without one it is only stopped. */
async function stopAndRemove(wanted: string, json: boolean): Promise<number> {
  const operation = runStopOperation(wanted, null);
  let removed = false;
  let stopping = true;
  const stopped = await new StopCoordinator(null).stop({
    ...operation,
    ask: async (connection, signal) => {
      const runId = await resolveRunId(connection, wanted, signal);
      ({ stopping } = await connection.client.remove({ params: { runId } }, signal));
      removed = true;
      const answer = await operation.ask(connection, signal);
      // The first request may have ended it before the second one.
      return stopping && answer.outcome === "ended-before" && answer.run.emptiness === "proven"
        ? { ...answer, outcome: "gone" as const }
        : answer;
    },
  });
  const { runId, outcome } = stopOutcome(stopped);
  if (json) print(toJson({ ...stopResultJson(stopped), removed, stopping }));
  else {
    if (removed) print(`${runId} is removed\n`);
    if (stopping) printStopOutcome(runId, outcome);
  }
  if (stopped.through === "direct") printRemark(stopped.remark);
  if (!removed)
    notice(`${runId} is not removed: that needs a gateway; repeat the command when one answers`, "yellow");
  return stopping ? stopExitCode(outcome.outcome) : 0;
}

export async function clearRuns(json: boolean): Promise<number> {
  const { client } = await connectOrStart();
  const { cleared } = await client.clear();
  if (json) print(toJson({ cleared }));
  else print(`removed ${cleared} ended ${cleared === 1 ? "run" : "runs"} from lists; --all lists them\n`);
  return 0;
}
