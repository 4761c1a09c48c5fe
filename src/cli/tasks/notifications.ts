import { notice } from "../print/stderr.js";
import { exitCodes } from "../print/exit-code.js";
import { assertOperator, connectOrStart } from "../client/connect.js";
import { toJson } from "../json.js";
import { print } from "../print/stdout.js";
import { taskParams } from "./named.js";

const DONE_TEXT = { retryTask: "tried again", dismissTask: "dismissed" } as const;

/** What is to become of a task's messages that could not be delivered. */
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
