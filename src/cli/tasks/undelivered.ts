import { say } from "../complain.js";
import { exitCodes } from "../exit-code.js";
import { mustBeOperator, needGateway } from "../gateway/connect.js";
import { toJson } from "../json.js";
import { print } from "../runs/print.js";
import { named } from "./named.js";

const DONE = { retryTask: "tried again", dismissTask: "dismissed" } as const;

/** What is to become of a task's messages that could not be delivered. */
export async function settleUndelivered(
  verb: keyof typeof DONE,
  wanted: string,
  json: boolean,
): Promise<number> {
  mustBeOperator("decide about messages that could not be delivered");
  const params = named(wanted);
  const { client } = await needGateway();
  const answer = await client[verb]({ params });
  const { task, messages } = answer;
  if (json) print(toJson(answer));
  else if (messages === 0) say(`${task.taskId} has no message that could not be delivered`, "dim");
  else print(`${task.taskId}: ${messages} ${messages === 1 ? "message is" : "messages are"} ${DONE[verb]}\n`);
  return messages === 0 ? exitCodes.notThere : 0;
}
