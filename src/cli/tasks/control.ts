import type { ResponseOf } from "../../api/contract.js";
import type { NotifyPolicy } from "../../model/task.js";
import { processNames } from "../acp/view/texts.js";
import { assertOperator, connectOrStart } from "../client/connect.js";
import { wantsNotification, warnNobodyNotified } from "../client/notify-options.js";
import { openReadClient } from "../client/read-client.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { printTable } from "../print/table.js";
import { printRemark, StopCoordinator, type StopResult, survivorsOf } from "../stop/stop-coordinator.js";
import { printStopOutcome, stopExitCode } from "../stop/stop-run.js";
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

const DONE_TEXT = { retryTask: "tried again", dismissTask: "dismissed" } as const;

/** Retries or discards notifications that could not be delivered. */
export async function retryOrDismiss(
  verb: keyof typeof DONE_TEXT,
  wanted: string,
  json: boolean,
): Promise<number> {
  assertOperator("decide about messages that could not be delivered");
  const params = taskParams(wanted);
  const { client } = await connectOrStart();
  const answer = await client[verb]({ params });
  const { task, messages } = answer;
  if (json) print(toJson(answer));
  else if (messages === 0) notice(`${task.taskId} has no message that could not be delivered`, "dim");
  else
    print(
      `${task.taskId}: ${messages} ${messages === 1 ? "message is" : "messages are"} ${DONE_TEXT[verb]}\n`,
    );
  return messages === 0 ? exitCodes.notThere : 0;
}

export async function setNotifyPolicy(wanted: string, policy: NotifyPolicy, json: boolean): Promise<number> {
  const params = taskParams(wanted);
  const { client } = await connectOrStart();
  const answer = await client.notifyTask({ params, body: { policy } });
  const { task, changed } = answer;
  if (json) print(toJson(answer));
  else {
    print(`${task.taskId}: ${task.policy}${changed ? "" : ", as before"}\n`);
    if (wantsNotification(task.policy) && task.targets.length === 0) warnNobodyNotified(task);
  }
  return 0;
}

/** The maintenance that a gateway does every minute, now and for all tasks; without `apply`, only its plan. */
export async function maintainTasksCommand(apply: boolean, json: boolean): Promise<number> {
  assertOperator("maintain tasks");
  const answer = await (apply ? applyMaintenance() : previewMaintenance());
  const rows = answer.measures.map(({ taskId, act, detail }) => [taskId, act, detail]);
  if (json) print(toJson(answer, 2));
  else if (rows.length === 0) notice("there is nothing to be done", "dim");
  else printTable(["TASK", "MEASURE", "DETAIL"], rows);
  if (!json && rows.length > 0 && !apply) notice("nothing was changed; --apply does it", "dim");
  return 0;
}

async function applyMaintenance(): Promise<ResponseOf<"maintainTasks">> {
  const { client } = await connectOrStart();
  return client.maintainTasks({ body: { apply: true } });
}

async function previewMaintenance(): Promise<ResponseOf<"maintainTasks">> {
  await using reader = await openReadClient();
  return await reader.client.maintainTasks({ body: { apply: false } });
}

/** Exits with 1 if there are findings, as `doctor` does. */
export async function printTaskAudit(json: boolean): Promise<number> {
  assertOperator("audit tasks");
  await using reader = await openReadClient();
  const { findings } = await reader.client.auditTasks();
  const rows = findings.map(({ code, taskId, detail }) => [code, taskId, detail]);
  if (json) print(toJson(findings, 2));
  else if (rows.length === 0) notice("nothing is the matter with any task", "dim");
  else printTable(["FINDING", "TASK", "DETAIL"], rows);
  if (!json && findings.some(({ code }) => code === "delivery_failed"))
    notice(
      "`holdfast tasks show` says why; `tasks retry` sends it again, `tasks dismiss` gives it up",
      "dim",
    );
  return rows.length === 0 ? 0 : 1;
}
