import type { CommandInput, SpawnOptions } from "../../supervisor/api.js";
import { exitCodes, spawnErrorCode } from "../exit-code.js";
import { needGateway } from "../gateway/connect.js";
import { execBody } from "../gateway/exec-body.js";
import { print } from "../runs/print.js";
import { say } from "../complain.js";

/** Hand a command to the gateway, with the environment it would have here, and leave. Prints the run's id. */
export async function runDetached(
  input: CommandInput,
  options: SpawnOptions,
  json: boolean,
): Promise<number> {
  const { client } = await needGateway();
  const { run, failure } = await client.exec({
    body: {
      ...execBody(input, options),
      stdin: input.io === "pty" ? "pipe" : "null",
      background: true,
    },
  });
  print(json ? `${JSON.stringify(run)}\n` : `${run.runId}\n`);
  if (failure === null) return 0;
  if (run.exit !== null) say(run.exit.detail ?? failure, "red");
  return run.exit?.reason === "spawn-error" ? spawnErrorCode(run.exit.errno, "exec") : exitCodes.failure;
}
