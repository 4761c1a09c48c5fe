import type { ResponseOf, RequestOf } from "../../api/contract.js";
import type { CommandInput, SpawnOptions } from "../../supervisor/api.js";
import { exitCodes, spawnErrorCode } from "../print/exit-code.js";
import { connectOrStart } from "../client/connect.js";
import { execRequestBody } from "../client/exec-request.js";
import { toJson } from "../json.js";
import { printRequired } from "../print/stdout.js";
import { notice } from "../print/stderr.js";

/** Hand a command to the gateway and leave. Prints the run's id. */
export async function runDetached(
  input: CommandInput,
  options: SpawnOptions,
  tell: Pick<RequestOf<"exec">["body"], "notify" | "origin">,
  json: boolean,
): Promise<number> {
  const { client } = await connectOrStart();
  const answer = await client.exec({ body: { ...detachedExecBody(input, options), ...tell } });
  printStarted(answer.run, json);
  return startExitCode(answer);
}

/** Its id or its record: it goes on, and whoever does not learn its name has lost it. */
export function printStarted(run: ResponseOf<"exec">["run"], json: boolean, more = ""): void {
  printRequired(
    json ? toJson(run) : `${run.runId}${more}\n`,
    `${run.runId} was started, but its id could not be written`,
  );
}

/** A command for the gateway, to go on in the background. */
export function detachedExecBody(input: CommandInput, options: SpawnOptions): RequestOf<"exec">["body"] {
  return {
    ...execRequestBody(input, options),
    stdin: input.io === "pty" ? "pipe" : "null",
    background: true,
  };
}

/** Says why it could not be started. 0: it was. */
export function startExitCode({ run, failure }: ResponseOf<"exec">): number {
  if (failure === null) return 0;
  if (run.exit !== null) notice(run.exit.detail ?? failure, "red");
  // Its record does not tell whether the directory was missing or the command.
  if (failure === "cwd-not-found") return exitCodes.failure;
  return run.exit?.reason === "spawn-error" ? spawnErrorCode(run.exit.errno, "exec") : exitCodes.failure;
}
