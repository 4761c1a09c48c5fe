import type { ResponseOf } from "../../api/contract.js";
import { assertOperator, connectOrStart } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import type { JsonFlag } from "../options/command-definition.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { printTable } from "../print/table.js";

/** The maintenance that a gateway does every minute, now and for all tasks; without `apply`, only its plan. */
export async function maintainTasksCommand({
  apply = false,
  json = false,
}: JsonFlag & { readonly apply?: boolean }): Promise<number> {
  assertOperator("maintain tasks");
  const answer = await maintainTasks(apply);
  const rows = answer.measures.map(({ taskId, act, detail }) => [taskId, act, detail]);
  if (json) print(toJson(answer, 2));
  else if (rows.length === 0) notice("there is nothing to do", "dim");
  else printTable(["TASK", "MEASURE", "DETAIL"], rows);
  if (!json && rows.length > 0 && !apply) notice("nothing was changed; --apply does it", "dim");
  return 0;
}

/** A preview needs no gateway. */
async function maintainTasks(apply: boolean): Promise<ResponseOf<"maintainTasks">> {
  if (apply) return (await connectOrStart()).client.maintainTasks({ body: { apply } });
  await using reader = await openReadClient();
  return await reader.client.maintainTasks({ body: { apply } });
}

/** Exits with 1 if there are findings, as `doctor` does. */
export async function printTaskAudit({ json = false }: JsonFlag): Promise<number> {
  assertOperator("audit tasks");
  await using reader = await openReadClient();
  const { findings } = await reader.client.auditTasks();
  const rows = findings.map(({ code, taskId, detail }) => [code, taskId, detail]);
  if (json) print(toJson(findings, 2));
  else if (rows.length === 0) notice("there are no findings", "dim");
  else printTable(["FINDING", "TASK", "DETAIL"], rows);
  if (!json && findings.some(({ code }) => code === "delivery_failed"))
    notice(
      "`holdfast tasks show` shows why; `tasks retry` sends it again, `tasks dismiss` discards it",
      "dim",
    );
  return rows.length === 0 ? 0 : 1;
}
