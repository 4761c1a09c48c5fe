import { HoldfastError, LimitUnavailable, SpawnFailed } from "../../errors.js";
import type { GatewayError } from "../../api/client.js";

/** A gateway's word that a command could not be started, as if that had been found out here; anything else as it is. */
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
