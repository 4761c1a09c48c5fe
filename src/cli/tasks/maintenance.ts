import type { ResponseOf } from "../../api/contract.js";
import { notice } from "../print/stderr.js";
import { assertOperator, connectOrStart } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import { toJson } from "../json.js";
import { printTable } from "../runs/print-table.js";
import { print } from "../print/stdout.js";

/** What a gateway does by itself every minute, now and over all tasks; not applied, only what it would be. */
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
