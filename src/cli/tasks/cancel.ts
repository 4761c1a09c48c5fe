import { namesOf } from "../acp/ending.js";
import { say } from "../complain.js";
import { exitCodes } from "../exit-code.js";
import { needGateway } from "../gateway/connect.js";
import { toJson } from "../json.js";
import { print } from "../runs/print.js";
import { named } from "./named.js";
import { statusOfTask } from "./status.js";

/** Until what does it is proven to be gone, or its agent's turn is over. */
export async function cancelTask(wanted: string, json: boolean): Promise<number> {
  const params = named(wanted);
  const { client } = await needGateway();
  const answer = await client.cancelTask({ params });
  const { task, outcome, survivors } = answer;
  if (json) print(toJson(answer));
  else if (outcome === "cancelled") print(`${task.taskId} is cancelled\n`);
  else if (outcome === "ended-before") print(`${task.taskId} had ended before: ${statusOfTask(task)}\n`);
  else {
    const left = survivors.length === 0 ? "" : `, and these would not go: ${namesOf(survivors)}`;
    say(`${task.taskId} was told to stop, and has not yet${left}`, "yellow");
  }
  return outcome === "going-on" ? exitCodes.incomplete : 0;
}
