import { resolve } from "node:path";
import type { GatewayError } from "../../api/client.js";
import type { RequestOf } from "../../api/contract.js";
import { BadInput, HoldfastError, LimitUnavailable, SpawnFailed } from "../../errors.js";
import { environmentOutsideRuns } from "../../gateway/start.js";
import type { CommandInput, SpawnOptions } from "../../supervisor/api.js";
import { sessionToken } from "./requester.js";

/** The request for a command with the environment, directory and umask of this process. */
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

/** Absolute: the gateway has another directory. */
function absoluteCwd(cwd: string | undefined): string {
  if (cwd === "")
    throw new BadInput("cwd", "the working directory is empty; leave it out for the current one");
  try {
    return resolve(cwd ?? ".");
  } catch (error) {
    throw new BadInput("cwd", `the current directory is gone (${(error as Error).message}); say --cwd`);
  }
}

/** Turns a gateway's error about a failed start into SpawnFailed; returns other errors unchanged. */
export function toSpawnFailed(error: unknown): unknown {
  if (!hasErrorCode(error, "SPAWN_FAILED", "LIMIT_UNAVAILABLE")) return error;
  const { code, message, fields } = error as GatewayError;
  const { runId, errno, step } = fields as { runId: string; errno: number; step: string };
  const Failure = code === "LIMIT_UNAVAILABLE" ? LimitUnavailable : SpawnFailed;
  return new Failure(runId, errno, step, message);
}

export function hasErrorCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof HoldfastError && codes.includes(error.code);
}

const APPROVAL_NOTICE_MS = 2_000;

/** Prints a notice if the command of a session waits long, which may be for an approval. */
export function noticeIfWaitingForApproval(notice: (message: string) => void): Disposable | null {
  if (sessionToken() === null) return null;
  const waiting = "waiting to be allowed; the operator sees the question with `holdfast approvals list`";
  const timer = setTimeout(() => notice(waiting), APPROVAL_NOTICE_MS);
  return { [Symbol.dispose]: () => clearTimeout(timer) };
}
