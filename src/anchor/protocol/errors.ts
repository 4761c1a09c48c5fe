import { constants } from "node:os";
import { getSystemErrorMap } from "node:util";
import { defaults } from "../../defaults.js";
import { AnchorUnusable, LimitUnavailable, SpawnFailed, StaleEpoch } from "../../errors.js";
import { errnoCode } from "../../home/errno.js";
import type { SpawnFailure } from "../run-dir/run-file-types.js";
import { type HandshakeResult, isNotListening } from "./connection.js";
import { WrongProof } from "./pipe-proof.js";

/** Advice for hosts where no cgroup can be created or controllers are missing. */
export const DELEGATION_HINT =
  "Start it in a delegated subtree: systemd-run --user --scope -p Delegate=yes -- holdfast gateway run; in a container, mount /sys/fs/cgroup writable (docker run --cgroupns=private with a delegated cgroup)";

/** The command to start. Known to the supervisor that started the run, not to one that attached later. */
export interface StartAttempt {
  readonly cwd: string;
  readonly command: string;
}

const { ENOENT, ENOTDIR, EACCES, EPERM, ENOEXEC, E2BIG, EAGAIN, ENOMEM, ENOSPC, EDQUOT, EMFILE, ENFILE } =
  constants.errno;

/** Describes in one sentence what failed and why. */
export function describeSpawnFailure(failure: SpawnFailure, attempt: StartAttempt | null): string {
  const { errno, step } = failure;
  switch (step) {
    case "cwd":
      return `cannot enter directory ${attempt?.cwd ?? "of the run"}: ${cwdReason(errno)}`;
    case "exec":
      return `cannot run ${attempt?.command ?? "the command"}: ${execReason(errno)}`;
    case "spec":
      if (errno === E2BIG) return `cannot run ${attempt?.command ?? "the command"}: ${execReason(errno)}`;
      return describeOtherFailure(failure);
    case "limit":
      return `cannot set a limit (${failure.message}); the command did not run. ${DELEGATION_HINT}`;
    case "fork":
      return `cannot start a process: ${forkReason(errno)}`;
    case "directory":
      return `cannot write the run's directory: ${directoryReason(errno)}`;
    default:
      return describeOtherFailure(failure);
  }
}

function cwdReason(errno: number): string {
  if (errno === ENOENT) return "no such directory";
  if (errno === ENOTDIR) return "it is not a directory";
  return describeErrno(errno);
}

function execReason(errno: number): string {
  if (errno === ENOENT) return "no such command, or the interpreter it names is missing";
  if (errno === EACCES) return "permission denied; it is not an executable file, or on a noexec file system";
  if (errno === ENOEXEC) return "this system cannot execute it; a script needs a #! line";
  if (errno === E2BIG) return "its arguments and environment are too long for this system";
  return describeErrno(errno);
}

function forkReason(errno: number): string {
  if (errno === EAGAIN) return "the limit of processes for this user or container is reached";
  if (errno === ENOMEM) return "the system is out of memory";
  if (errno === EMFILE || errno === ENFILE) return "too many open files";
  return describeErrno(errno);
}

function directoryReason(errno: number): string {
  if (errno === ENOSPC || errno === EDQUOT) return "the disk or quota is full";
  if (errno === EACCES || errno === EPERM) return "permission denied";
  return describeErrno(errno);
}

function describeOtherFailure({ errno, step, message }: SpawnFailure): string {
  if (message !== "") return `cannot start the run (${step}): ${message}`;
  return `cannot start the run (${step}): ${describeErrno(errno)}`;
}

/** The system's text for an error number, or the number. */
function describeErrno(errno: number): string {
  return getSystemErrorMap().get(-errno)?.[1] ?? `error ${errno}`;
}

/** True for EOF and for errors of a connection to a process that is exiting, or has ended. */
export function isDisconnected(error: Error | null): boolean {
  return (
    error === null ||
    isNotListening(error) ||
    errnoCode(error) === "ECONNRESET" ||
    errnoCode(error) === "EPIPE" ||
    error instanceof WrongProof
  );
}

export function startError(runId: string, answer: HandshakeResult, attempt: StartAttempt): SpawnFailed {
  const never = "the command did not run";
  switch (answer.type) {
    case "failed": {
      const { errno, step } = answer.failure;
      const why = describeSpawnFailure(answer.failure, attempt);
      const Failed = step === "limit" ? LimitUnavailable : SpawnFailed;
      return new Failed(runId, errno, step, why);
    }
    case "refused":
      return new SpawnFailed(
        runId,
        0,
        "anchor",
        `the anchor refused the run (${answer.refusal.codeName}): ${answer.refusal.message}; ${never}`,
      );
    case "silent":
      return new SpawnFailed(
        runId,
        0,
        "anchor",
        `no anchor answered within ${defaults.launcherReadyMs} ms; ${never}`,
      );
    case "closed":
    case "answered": {
      const why = answer.type === "closed" && answer.error !== null ? ` (${answer.error.message})` : "";
      return new SpawnFailed(runId, 0, "anchor", `the anchor ended before it was ready${why}; ${never}`);
    }
  }
}

export function attachError(runId: string, path: string, answer: HandshakeResult): Error {
  if (answer.type === "refused") {
    const { codeName, message, epoch } = answer.refusal;
    if (codeName === "stale-epoch") return new StaleEpoch(runId, epoch ?? 0);
    return new AnchorUnusable(
      path,
      `the anchor of run ${runId} refused the connection (${codeName}): ${message}`,
    );
  }
  if (answer.type === "silent") {
    return new AnchorUnusable(
      path,
      `the anchor of run ${runId} does not answer; it may be stopped (SIGSTOP) or starved`,
    );
  }
  const why = answer.type === "closed" && answer.error !== null ? answer.error.message : answer.type;
  return new AnchorUnusable(path, `cannot attach to the anchor of run ${runId}: ${why}`);
}
