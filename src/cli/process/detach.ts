import type { AnswerOf, AskedOf } from "../../gateway/contract/contract.js";
import type { CommandInput, SpawnOptions } from "../../supervisor/api.js";
import { exitCodes, spawnErrorCode } from "../exit-code.js";
import { needGateway } from "../gateway/connect.js";
import { execBody } from "../gateway/exec-body.js";
import { toJson } from "../json.js";
import { printOnce } from "../runs/print.js";
import { say } from "../complain.js";

/** Hand a command to the gateway and leave. Prints the run's id. */
export async function runDetached(
  input: CommandInput,
  options: SpawnOptions,
  tell: Pick<AskedOf<"exec">["body"], "notify" | "origin">,
  json: boolean,
): Promise<number> {
  const { client } = await needGateway();
  const answer = await client.exec({ body: { ...handedOver(input, options), ...tell } });
  printStarted(answer.run, json);
  return startedCode(answer);
}

/** Its id or its record: it goes on, and whoever does not learn its name has lost it. */
export function printStarted(run: AnswerOf<"exec">["run"], json: boolean, more = ""): void {
  printOnce(
    json ? toJson(run) : `${run.runId}${more}\n`,
    `${run.runId} was started, but its id could not be written`,
  );
}

/** A command for the gateway, to go on in the background. */
export function handedOver(input: CommandInput, options: SpawnOptions): AskedOf<"exec">["body"] {
  return {
    ...execBody(input, options),
    stdin: input.io === "pty" ? "pipe" : "null",
    background: true,
  };
}

/** Says why it could not be started. 0: it was. */
export function startedCode({ run, failure }: AnswerOf<"exec">): number {
  if (failure === null) return 0;
  if (run.exit !== null) say(run.exit.detail ?? failure, "red");
  // Its record does not tell whether the directory was missing or the command.
  if (failure === "cwd-not-found") return exitCodes.failure;
  return run.exit?.reason === "spawn-error" ? spawnErrorCode(run.exit.errno, "exec") : exitCodes.failure;
}
