import { describeSurvivor } from "../../anchor/inspect/liveness.js";
import type { ResponseOf } from "../../api/contract.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { connectOrStart } from "../client/connect.js";
import { resolveRunId } from "../client/resolve-run.js";
import { runStatusText } from "../print/run-status.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { type DirectStop, printRemark, StopCoordinator } from "../stop/stop-coordinator.js";
import {
  handedOverText,
  printStopOutcome,
  runStopOperation,
  stopExitCode,
  stopOutcome,
} from "../stop/stop-run.js";

export async function stopProcess(wanted: string, graceMs: number | null, json: boolean): Promise<number> {
  const stopped = await new StopCoordinator(graceMs).stop(runStopOperation(wanted, graceMs));
  const { runId, outcome } = stopOutcome(stopped);
  if (stopped.through === "gateway") {
    if (json) print(toJson(stopped.answer));
    else print(`${stopLines(runId, stopped.answer).join("\n")}\n`);
    return stopExitCode(outcome.outcome);
  }
  if (json) print(toJson(directStopJson(stopped.runs[0])));
  else printStopOutcome(runId, outcome);
  printRemark(stopped.remark);
  return stopExitCode(outcome.outcome);
}

/** As a gateway answers, with what is known without one: `run` is null when its record could not be read. */
function directStopJson(stop: DirectStop | undefined): object {
  if (stop === undefined) return {};
  const { runId, record, outcome } = stop;
  return { runId, survivors: [], run: record, command: null, through: "direct", ...outcome };
}

function stopLines(runId: string, answer: ResponseOf<"kill">): string[] {
  const { outcome, survivors, run } = answer;
  switch (outcome) {
    case "handed-over":
      return [`${runId}: ${sanitizeLine(handedOverText(answer))}`];
    case "gone":
      return [`${runId} is gone`];
    case "ended-before":
      return [`${runId} had ended before: ${runStatusText(run)}`];
    case "unknown":
      return [
        `${runId}: no anchor answers for it, and nothing was signalled; see holdfast runs cleanup --run ${runId}`,
      ];
    case "survivors":
      return [
        `${runId} has survivors:`,
        ...survivors.map((each) => `  ${sanitizeLine(describeSurvivor(each))}`),
      ];
  }
}

/** Hide a run and stop it; waits until it is gone. Only a gateway can hide it: without one it is stopped. */
export async function removeProcess(wanted: string, json: boolean): Promise<number> {
  const kill = runStopOperation(wanted, null);
  let removed = false;
  let stopping = true;
  const stopped = await new StopCoordinator(null).stop({
    ...kill,
    ask: async (connection, signal) => {
      const runId = await resolveRunId(connection, wanted, signal);
      ({ stopping } = await connection.client.remove({ params: { runId } }, signal));
      removed = true;
      const answer = await kill.ask(connection, signal);
      // It may have ended between the two requests: of the first one.
      return stopping && answer.outcome === "ended-before" ? { ...answer, outcome: "gone" as const } : answer;
    },
  });
  const { runId, outcome } = stopOutcome(stopped);
  if (json) print(toJson({ runId, removed, stopping, through: stopped.through, ...outcome }));
  else {
    if (removed) print(`${runId} is removed\n`);
    if (stopping) printStopOutcome(runId, outcome);
  }
  if (stopped.through === "direct") printRemark(stopped.remark);
  if (!removed)
    notice(
      `${runId} is not hidden: only a gateway can hide it; repeat the command when one answers`,
      "yellow",
    );
  return stopExitCode(outcome.outcome);
}

export async function clearProcesses(json: boolean): Promise<number> {
  const { client } = await connectOrStart();
  const { cleared } = await client.clear();
  if (json) print(toJson({ cleared }));
  else print(`${cleared} ended ${cleared === 1 ? "run is" : "runs are"} hidden; --all shows them\n`);
  return 0;
}
