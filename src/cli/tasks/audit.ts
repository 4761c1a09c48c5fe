import { notice } from "../print/stderr.js";
import { assertOperator } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import { toJson } from "../json.js";
import { printTable } from "../runs/print-table.js";
import { print } from "../print/stdout.js";

/** Ends like `doctor`: with 1 when there is something to look at. */
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
