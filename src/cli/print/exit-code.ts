import { constants } from "node:os";
import type { RunRecord } from "../../model/run.js";
import { signalNumber } from "../../text/signal-name.js";

/** What `holdfast` exits with when it is not the command's own code. As timeout(1), env(1) and shells do. */
export const exitCodes = {
  /** What was asked about does not exist. */
  notThere: 1,
  /** It may not be had: by a rule, or because somebody else has it. */
  refused: 1,
  /** The agent could not do it. */
  turnFailed: 1,
  /** The work of a task was done, and went wrong. */
  taskFailed: 1,
  /** The command line cannot be understood. */
  usage: 2,
  /** Not everything that was asked for could be done; what is left is said. */
  incomplete: 3,
  /** It was handed over to another host, which has not said yet that it is done. It will be, when that host is there. */
  handedOver: 4,
  /** The store could not be read while looking up a record, so it is not known whether the record exists. */
  unreadable: 5,
  /** The command succeeded but left processes behind that had detached themselves, under `--on-escape fail`. */
  escape: 120,
  /** Of a turn: the agent's process ended on the way. */
  interrupted: 121,
  /** Of a turn: the agent was told to stop and did not say that it has. */
  cancelUnconfirmed: 122,
  /** Of a turn: the agent has answered, but knew nothing of what was said before. */
  contextLost: 123,
  timeout: 124,
  /** Holdfast itself failed, or cannot say how the command ended. */
  failure: 125,
  /** Found, but not executable. */
  notExecutable: 126,
  notFound: 127,
  /** Plus the signal's number. */
  signal: 128,
  /** 128 + SIGINT, of a turn or a task, whoever has cancelled it. */
  cancelled: 128 + 2,
  /** 128 + SIGPIPE: what a shell reports of a command whose reader has gone, on any system. */
  readerGone: 128 + 13,
} as const;

/** The exit code of `holdfast run` for a run that has ended. */
export function runExitCode({ exit }: Pick<RunRecord, "exit">): number {
  if (exit === null) return exitCodes.failure;
  switch (exit.reason) {
    case "exit":
    case "signal":
      return commandExitCode(exit) ?? exitCodes.failure;
    case "spawn-error":
      return spawnErrorCode(exit.errno, "exec");
    case "overall-timeout":
    case "no-output-timeout":
      return exitCodes.timeout;
    case "ownership-escape":
      return commandExitCode(exit) || exitCodes.escape;
    case "manual-cancel":
    case "shutdown":
    case "owner-lost":
      // It was told to terminate. One that then said "success" was still cut short.
      return commandExitCode(exit) || exitCodes.signal + constants.signals.SIGTERM;
    case "lost":
      // A code may have been noted, but nobody saw the tree empty: not a result to build on.
      return exitCodes.failure;
  }
}

/** As a shell answers when it cannot run a command. Any step but `exec` is Holdfast's failure, not the command's. */
export function spawnErrorCode(errno: number | null, step: string): number {
  if (step !== "exec" || errno === null) return exitCodes.failure;
  return errno === constants.errno.ENOENT ? exitCodes.notFound : exitCodes.notExecutable;
}

function commandExitCode({
  code,
  signal,
}: {
  readonly code: number | null;
  readonly signal: string | null;
}): number | null {
  if (signal === null) return code;
  const number = signalNumber(signal);
  return number === null ? null : exitCodes.signal + number;
}
