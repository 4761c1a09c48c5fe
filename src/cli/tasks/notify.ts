import type { NotifyPolicy } from "../../store/task-record.js";
import { needGateway } from "../gateway/connect.js";
import { toJson } from "../json.js";
import { print } from "../runs/print.js";
import { named } from "./named.js";
import { asksToHear, sayUnheard } from "./telling.js";

export async function notifyTask(wanted: string, policy: NotifyPolicy, json: boolean): Promise<number> {
  const params = named(wanted);
  const { client } = await needGateway();
  const answer = await client.notifyTask({ params, body: { policy } });
  const { task, changed } = answer;
  if (json) print(toJson(answer));
  else {
    print(`${task.taskId}: ${task.policy}${changed ? "" : ", as before"}\n`);
    if (asksToHear(task.policy) && task.targets.length === 0) sayUnheard(task);
  }
  return 0;
}
