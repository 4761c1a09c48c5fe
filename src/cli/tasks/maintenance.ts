import type { ResponseOf } from "../../api/contract.js";
import { assertOperator, connectOrStart } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { printTable } from "../print/table.js";

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
