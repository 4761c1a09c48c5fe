import { say } from "../complain.js";
import { needGateway } from "../gateway/connect.js";
import { fullRunId } from "../process/act.js";
import { print } from "../runs/print.js";

export interface AdoptRequest {
  readonly wanted: string;
  readonly keepTimeouts: boolean;
  readonly json: boolean;
}

/** Make a service of a running task. */
export async function adoptService({ wanted, keepTimeouts, json }: AdoptRequest): Promise<number> {
  const connection = await needGateway();
  const runId = await fullRunId(connection, wanted);
  const record = await connection.client.adoptRun({ params: { runId }, body: { keepTimeouts } });
  print(json ? `${JSON.stringify(record)}\n` : `${record.runId}\n`);
  if (!json) say(`it is a service now; \`holdfast service stop ${record.runId}\` stops it`, "dim");
  return 0;
}
