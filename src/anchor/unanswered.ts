import { defaults } from "../defaults.js";
import { AnchorUnusable, LimitUnavailable, SpawnFailed, StaleEpoch } from "../errors.js";
import { isNotListening } from "./connect.js";
import { errnoCode } from "./error-code.js";
import { describeSpawnFailure, type StartAttempt } from "./protocol/errors.js";
import type { HandshakeResult } from "./protocol/handshake.js";

/** EOF, or the ways in which a connection to a process that is just ending breaks. */
export function isDisconnected(error: Error | null): boolean {
  return (
    error === null ||
    isNotListening(error) ||
    errnoCode(error) === "ECONNRESET" ||
    errnoCode(error) === "EPIPE"
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
