import type { NotifyPolicy } from "../../model/task.js";
import { assertOperator, connectOrStart } from "../client/connect.js";
import { wantsNotification, warnNobodyNotified } from "../client/notify-options.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { taskParams } from "./status.js";

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
