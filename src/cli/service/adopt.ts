import { BadInput } from "../../errors.js";
import { assertOperator, connectOrStart } from "../client/connect.js";
import { resolveRunId } from "../client/resolve-run.js";
import type { JsonFlag } from "../options/command-definition.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";

interface AdoptFlags extends JsonFlag {
  readonly keepTimeouts?: boolean;
}

/** A number is a process id; anything else names a run. */
export function adoptService(wanted: string, flags: AdoptFlags): Promise<number> {
  return /^\d+$/.test(wanted) ? adoptProcess(wanted, flags) : convertRunToService(wanted, flags);
}

async function convertRunToService(
  wanted: string,
  { keepTimeouts = false, json = false }: AdoptFlags,
): Promise<number> {
  const connection = await connectOrStart();
  const runId = await resolveRunId(connection, wanted);
  const record = await connection.client.adoptRun({
    params: { runId },
    body: { keepTimeouts },
  });
  print(json ? toJson(record) : `${record.runId}\n`);
  if (!json) notice(`it is a service now; \`holdfast service stop ${record.runId}\` stops it`, "dim");
  return 0;
}

async function adoptProcess(
  wanted: string,
  { keepTimeouts = false, json = false }: AdoptFlags,
): Promise<number> {
  if (keepTimeouts)
    throw new BadInput("option", "a process has no timeouts of its own to keep; nothing was changed");
  assertOperator("take a process out of its run");
  const { client } = await connectOrStart();
  const answer = await client.adoptProcess({ params: { pid: wanted } });
  print(json ? toJson(answer) : `${answer.run.runId}\n`);
  for (const warning of answer.warnings) notice(warning, "yellow");
  if (!json) notice(`process ${wanted} and its descendants left ${answer.from} and are a service now`, "dim");
  return 0;
}
