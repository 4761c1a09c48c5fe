import type { CommandInput, SpawnOptions } from "../../supervisor/api.js";
import { unmarkedEnvironment } from "../../gateway/start.js";
import { exitCodes, spawnErrorCode } from "../exit-code.js";
import { needGateway } from "../gateway/connect.js";
import { print } from "../runs/print.js";
import { say } from "../complain.js";

/** Hand a command to the gateway, with the environment it would have here, and leave. Prints the run's id. */
export async function runDetached(
  input: CommandInput,
  options: SpawnOptions,
  json: boolean,
): Promise<number> {
  const { client } = await needGateway();
  const {
    cwd = process.cwd(),
    umask,
    labels = {},
    env = {},
    allowEnv = [],
    graceMs,
    onEscape,
    limits,
    merge = false,
  } = options;
  const inherited = options.clearEnv === true ? {} : unmarkedEnvironment();
  const { run, failure } = await client.exec({
    body: {
      ...("argv" in input ? { argv: [...input.argv] } : { command: input.ptyCommand }),
      pty: input.io === "pty",
      environment: inherited,
      env: { ...env },
      allowEnv: [...allowEnv],
      cwd,
      ...(umask === undefined ? {} : { umask }),
      labels: { ...labels },
      timeoutMs: options.timeoutMs ?? 0,
      noOutputTimeoutMs: options.noOutputTimeoutMs ?? 0,
      ...(graceMs === undefined ? {} : { graceMs }),
      ...(onEscape === undefined ? {} : { onEscape }),
      ...(limits === undefined ? {} : { limits }),
      merge,
      stdin: input.io === "pty" ? "pipe" : "null",
      background: true,
      maxChars: 0,
    },
  });
  print(json ? `${JSON.stringify(run)}\n` : `${run.runId}\n`);
  if (failure === null) return 0;
  if (run.exit !== null) say(run.exit.detail ?? failure, "red");
  return run.exit?.reason === "spawn-error" ? spawnErrorCode(run.exit.errno, "exec") : exitCodes.failure;
}
