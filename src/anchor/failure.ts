import { constants } from "node:os";
import { getSystemErrorMap } from "node:util";
import { DELEGATION } from "./delegation.js";
import type { SpawnFailure } from "./host.js";

/** What was to be started; known to the supervisor that asked, not to one that attached later. */
export interface Attempt {
  readonly cwd: string;
  readonly command: string;
}

const { ENOENT, ENOTDIR, EACCES, EPERM, ENOEXEC, E2BIG, EAGAIN, ENOMEM, ENOSPC, EDQUOT, EMFILE, ENFILE } =
  constants.errno;

/** One sentence for a person: what could not be done, and why. */
export function explainFailure(failure: SpawnFailure, attempt: Attempt | null): string {
  const { errno, step } = failure;
  switch (step) {
    case "cwd":
      return `cannot enter directory ${attempt?.cwd ?? "of the run"}: ${whyNotEntered(errno)}`;
    case "exec":
      return `cannot run ${attempt?.command ?? "the command"}: ${whyNotRun(errno)}`;
    case "spec":
      if (errno === E2BIG) return `cannot run ${attempt?.command ?? "the command"}: ${whyNotRun(errno)}`;
      return otherwise(failure);
    case "limit":
      return `cannot set a limit (${failure.message}); the command did not run. ${DELEGATION}`;
    case "fork":
      return `cannot start a process: ${whyNotForked(errno)}`;
    case "directory":
      return `cannot write the run's directory: ${whyNotWritten(errno)}`;
    default:
      return otherwise(failure);
  }
}

function whyNotEntered(errno: number): string {
  if (errno === ENOENT) return "no such directory";
  if (errno === ENOTDIR) return "it is not a directory";
  return errnoText(errno);
}

function whyNotRun(errno: number): string {
  if (errno === ENOENT) return "no such command, or the interpreter it names is missing";
  if (errno === EACCES) return "permission denied; it is not an executable file, or on a noexec file system";
  if (errno === ENOEXEC) return "this system cannot execute it; a script needs a #! line";
  if (errno === E2BIG) return "its arguments and environment are too long for this system";
  return errnoText(errno);
}

function whyNotForked(errno: number): string {
  if (errno === EAGAIN) return "the limit of processes for this user or container is reached";
  if (errno === ENOMEM) return "the system is out of memory";
  if (errno === EMFILE || errno === ENFILE) return "too many open files";
  return errnoText(errno);
}

function whyNotWritten(errno: number): string {
  if (errno === ENOSPC || errno === EDQUOT) return "the disk or quota is full";
  if (errno === EACCES || errno === EPERM) return "permission denied";
  return errnoText(errno);
}

function otherwise({ errno, step, message }: SpawnFailure): string {
  if (message !== "") return `cannot start the run (${step}): ${message}`;
  return `cannot start the run (${step}): ${errnoText(errno)}`;
}

/** "no space left on device", or the bare number where this system has no words for it. */
export function errnoText(errno: number): string {
  return getSystemErrorMap().get(-errno)?.[1] ?? `error ${errno}`;
}
