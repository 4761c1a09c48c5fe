import type { AnswerOf } from "../../gateway/contract/contract.js";
import { say } from "../complain.js";
import { mustBeOperator, needGateway } from "../gateway/connect.js";
import { openLook } from "../gateway/look.js";
import { toJson } from "../json.js";
import { printTable } from "../runs/print-table.js";
import { print } from "../runs/print.js";

/** What a gateway does by itself every minute, now and over all tasks; not applied, only what it would be. */
export async function maintainTasks(apply: boolean, json: boolean): Promise<number> {
  mustBeOperator("maintain tasks");
  const answer = await (apply ? applied() : previewed());
  const rows = answer.measures.map(({ taskId, act, detail }) => [taskId, act, detail]);
  if (json) print(toJson(answer, 2));
  else if (rows.length === 0) say("there is nothing to be done", "dim");
  else printTable(["TASK", "MEASURE", "DETAIL"], rows);
  if (!json && rows.length > 0 && !apply) say("nothing was changed; --apply does it", "dim");
  return 0;
}

async function applied(): Promise<AnswerOf<"maintainTasks">> {
  const { client } = await needGateway();
  return client.maintainTasks({ body: { apply: true } });
}

async function previewed(): Promise<AnswerOf<"maintainTasks">> {
  await using look = await openLook();
  return await look.client.maintainTasks({ body: { apply: false } });
}
