import type { NotifyPolicy } from "../../store/task-record.js";
import { say } from "../complain.js";
import { needGateway } from "../gateway/connect.js";
import { toJson } from "../json.js";
import { print } from "../runs/print.js";
import { named } from "./named.js";

export async function notifyTask(wanted: string, policy: NotifyPolicy, json: boolean): Promise<number> {
  const params = named(wanted);
  const { client } = await needGateway();
  const answer = await client.notifyTask({ params, body: { policy } });
  const { task, changed } = answer;
  if (json) print(toJson(answer));
  else {
    print(`${task.taskId}: ${task.policy}${changed ? "" : ", as before"}\n`);
    if (task.policy !== "silent" && task.targets.length === 0)
      say(`whom to tell was not said when ${task.taskId} was begun: nobody hears of it`, "yellow");
  }
  return 0;
}
