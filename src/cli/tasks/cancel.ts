import type { ResponseOf } from "../../api/contract.js";
import { processNames } from "../acp/view/turn-result.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { stopExitCode } from "../stop/stop-run.js";
import { printRemark, StopCoordinator, type StopResult, survivorsOf } from "../stop/stop-coordinator.js";
import { printStopOutcome } from "../stop/stop-run.js";
import { findTaskRuns } from "../stop/targets.js";
import { type ShownTask, taskParams, taskStatusText } from "./status.js";

type CancelAnswer = ResponseOf<"cancelTask">;

/** Cancels a task, and waits until its run is gone or its turn has ended. */
export async function cancelTaskCommand(wanted: string, json: boolean): Promise<number> {
  const params = taskParams(wanted);
  let task: ShownTask | null = null;
  const stopped = await new StopCoordinator(null).stop<CancelAnswer>({
    graceMs: null,
    ask: ({ client }, signal) => client.cancelTask({ params }, signal),
    isSettled: ({ outcome, survivors }) => outcome !== "going-on" || survivors.length > 0,
    find: async (localState) => {
      const found = await findTaskRuns(localState, wanted);
      task = found.task;
      return found.runs;
    },
  });
  return stopped.through === "gateway"
    ? printGatewayAnswer(stopped.answer, json)
    : printDirectStop(wanted, task, stopped, json);
}

function printGatewayAnswer(answer: CancelAnswer, json: boolean): number {
  const { task, outcome, survivors } = answer;
  if (json) print(toJson(answer));
  else if (outcome === "cancelled") print(`${task.taskId} is cancelled\n`);
  else if (outcome === "ended-before") print(`${task.taskId} had ended before: ${taskStatusText(task)}\n`);
  else {
    const left = survivors.length === 0 ? "" : `, and these would not go: ${processNames(survivors)}`;
    notice(`${task.taskId} was told to stop, and has not yet${left}`, "yellow");
  }
  return outcome === "going-on" ? exitCodes.incomplete : 0;
}

/** Its runs were stopped; the next gateway records the end of the task. */
function printDirectStop(
  wanted: string,
  task: ShownTask | null,
  { runs, remark }: Extract<StopResult<CancelAnswer>, { through: "direct" }>,
  json: boolean,
): number {
  const codes = runs.map(({ outcome }) => stopExitCode(outcome.outcome));
  const code = Math.max(0, ...codes);
  if (json) {
    const outcome = code === 0 ? (runs.length === 0 ? "ended-before" : "stopped") : "going-on";
    print(
      toJson({ task, outcome, survivors: survivorsOf(runs), through: "direct", runs: runs.map(stopJson) }),
    );
  } else if (runs.length === 0 && task !== null)
    print(`${task.taskId} had ended before: ${taskStatusText(task)}\n`);
  else {
    for (const { runId, outcome } of runs) printStopOutcome(runId, outcome);
    if (code === 0) print(`nothing of ${task?.taskId ?? wanted} runs any more\n`);
  }
  printRemark(remark);
  return code;
}

function stopJson({ runId, outcome }: { readonly runId: string; readonly outcome: object }): object {
  return { runId, ...outcome };
}
