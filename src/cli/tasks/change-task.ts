import type { ResponseOf } from "../../api/contract.js";
import { BadInput } from "../../errors.js";
import type { NotifyPolicy } from "../../model/task.js";
import { processNames } from "../acp/view/notice-texts.js";
import { assertOperator, connectOrStart } from "../client/connect.js";
import {
  channellessOption,
  type ChatFlags,
  originOf,
  wantsNotification,
  warnNobodyNotified,
} from "../client/notify-options.js";
import type { JsonFlag } from "../options/command-definition.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { printRemark, StopCoordinator, type StopResult, survivorsOf } from "../stop/stop-coordinator.js";
import { printStopOutcome, stopExitCode } from "../stop/stop-run.js";
import { findTaskRuns } from "../stop/select-runs.js";
import { type ShownTask, taskParams, taskStatusText } from "./task-texts.js";

type CancelAnswer = ResponseOf<"cancelTask">;

/** Cancels a task, and waits until its run is gone or its turn has ended. */
export async function cancelTaskCommand(wanted: string, { json = false }: JsonFlag): Promise<number> {
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
    const left =
      survivors.length === 0 ? "" : `; these processes survived SIGKILL: ${processNames(survivors)}`;
    notice(`${task.taskId} was requested to stop and has not stopped yet${left}`, "yellow");
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
  const code = Math.max(0, ...runs.map(({ outcome }) => stopExitCode(outcome.outcome)));
  if (json) {
    const outcome = code === 0 ? (runs.length === 0 ? "ended-before" : "stopped") : "going-on";
    const results = runs.map(({ runId, outcome: result }) => ({ runId, ...result }));
    print(toJson({ task, outcome, survivors: survivorsOf(runs), through: "direct", runs: results }));
  } else if (runs.length === 0 && task !== null)
    print(`${task.taskId} had ended before: ${taskStatusText(task)}\n`);
  else {
    for (const { runId, outcome } of runs) printStopOutcome(runId, outcome);
    if (code === 0) print(`no process of ${task?.taskId ?? wanted} is left\n`);
  }
  printRemark(remark);
  return code;
}

const DONE_TEXT = { retryTask: "sent again", dismissTask: "dismissed" } as const;

export const retryTask = (wanted: string, flags: JsonFlag) => retryOrDismiss("retryTask", wanted, flags);
export const dismissTask = (wanted: string, flags: JsonFlag) => retryOrDismiss("dismissTask", wanted, flags);

/** Retries or discards notifications that could not be delivered. */
async function retryOrDismiss(
  verb: keyof typeof DONE_TEXT,
  wanted: string,
  { json = false }: JsonFlag,
): Promise<number> {
  assertOperator("retry or dismiss notifications");
  const params = taskParams(wanted);
  const { client } = await connectOrStart();
  const answer = await client[verb]({ params });
  const { task, messages } = answer;
  if (json) print(toJson(answer));
  else if (messages === 0)
    notice(`${task.taskId} has no message that waits or could not be delivered`, "dim");
  else
    print(
      `${task.taskId}: ${messages} ${messages === 1 ? "message is" : "messages are"} ${DONE_TEXT[verb]}\n`,
    );
  return messages === 0 ? exitCodes.notThere : 0;
}

export async function setNotifyPolicy(
  wanted: string,
  policy: NotifyPolicy,
  flags: JsonFlag & ChatFlags,
): Promise<number> {
  const { json = false } = flags;
  const channelless = channellessOption(flags);
  if (channelless !== null) throw new BadInput("option", `${channelless}; nothing was changed`);
  const params = taskParams(wanted);
  const { client } = await connectOrStart();
  const answer = await client.notifyTask({ params, body: { policy, ...originOf(flags) } });
  const { task, changed } = answer;
  if (json) print(toJson(answer));
  else {
    print(`${task.taskId}: ${task.policy}${changed ? "" : ", as before"}\n`);
    if (wantsNotification(task.policy) && task.targets.length === 0) warnNobodyNotified(task);
  }
  return 0;
}
