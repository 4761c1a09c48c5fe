import { constants } from "node:os";
import type { RunRecord } from "../../model/run.js";
import { signalNumber } from "../../text/signal-name.js";

/** Exit codes of `holdfast` itself; otherwise it exits with the command's own code. As timeout(1), env(1) and shells do. */
export const exitCodes = {
  /** There is no such record. */
  notThere: 1,
  /** A rule, a limit or the state of the target forbids it. */
  refused: 1,
  /** The turn failed. */
  turnFailed: 1,
  /** The task failed. */
  taskFailed: 1,
  /** A service ended before it was ready. */
  notReady: 1,
  /** The command line, or an input, is wrong. */
  usage: 2,
  /** Done in part; the output says what is left. */
  incomplete: 3,
  /** Handed over to another host, which has not confirmed it yet. */
  handedOver: 4,
  /** The store could not be read, so it is not known whether the record exists. */
  unreadable: 5,
  /** The command succeeded but left detached processes behind, with `--on-escape fail`. */
  escape: 120,
  /** The agent's process ended during the turn. */
  interrupted: 121,
  /** The agent did not confirm the cancellation of the turn. */
  cancelUnconfirmed: 122,
  /** The agent answered without the context of the turns before. */
  contextLost: 123,
  timeout: 124,
  /** Holdfast itself failed, or does not know how the command ended. */
  failure: 125,
  /** Found, but not executable, or denied. */
  notExecutable: 126,
  notFound: 127,
  /** Plus the number of the signal. */
  signal: 128,
  /** 128 + SIGINT: a cancelled turn or task. */
  cancelled: 128 + 2,
  /** 128 + SIGPIPE: what a shell reports for a command whose reader has closed the pipe. */
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
      // It was stopped: an exit code of 0 is no success.
      return commandExitCode(exit) || exitCodes.signal + constants.signals.SIGTERM;
    case "lost":
      // An exit code may be recorded, but the end was not proven.
      return exitCodes.failure;
  }
}

/** As shells do. A missing directory is a wrong option; any other step before `exec` is a failure of Holdfast. */
export function spawnErrorCode(errno: number | null, step: string): number {
  if (step === "cwd") return exitCodes.usage;
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
