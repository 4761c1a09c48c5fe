import { resolve } from "node:path";
import { BadInput } from "../../errors.js";
import type { RequestOf } from "../../api/contract.js";
import { environmentOutsideRuns } from "../../gateway/start.js";
import type { CommandInput, SpawnOptions } from "../../supervisor/api.js";

/** A command as the gateway is asked for it: with the environment, directory and umask that it would have here. */
export function execRequestBody(input: CommandInput, options: SpawnOptions): RequestOf<"exec">["body"] {
  const { umask, labels = {}, env = {}, allowEnv = [], graceMs, onEscape, limits, merge = false } = options;
  return {
    ...("argv" in input ? { argv: [...input.argv] } : { command: input.ptyCommand }),
    pty: input.io === "pty",
    environment: options.clearEnv === true ? {} : environmentOutsideRuns(),
    env: { ...env },
    allowEnv: [...allowEnv],
    cwd: absoluteCwd(options.cwd),
    ...(umask === undefined ? {} : { umask }),
    labels: { ...labels },
    timeoutMs: options.timeoutMs ?? 0,
    noOutputTimeoutMs: options.noOutputTimeoutMs ?? 0,
    ...(graceMs === undefined ? {} : { graceMs }),
    ...(onEscape === undefined ? {} : { onEscape }),
    ...(limits === undefined ? {} : { limits }),
    merge,
    maxChars: 0,
  };
}

/** Absolute: the gateway's directory is not the caller's. */
function absoluteCwd(cwd: string | undefined): string {
  if (cwd === "")
    throw new BadInput("cwd", "the working directory is empty; leave it out for the current one");
  try {
    return resolve(cwd ?? ".");
  } catch (error) {
    throw new BadInput("cwd", `the current directory is gone (${(error as Error).message}); say --cwd`);
  }
}
