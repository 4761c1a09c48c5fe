import type { NotifyPolicy } from "../../model/task.js";
import { connectOrStart } from "../client/connect.js";
import { toJson } from "../json.js";
import { print } from "../print/stdout.js";
import { taskParams } from "./named.js";
import { wantsNotification, warnNobodyNotified } from "../client/notify-options.js";

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
