import type { Store } from "../store/store.js";
import { defaults } from "../defaults.js";
import type { Sessions } from "../sessions/sessions.js";
import { CLI_BACKEND } from "../model/session.js";
import { OPEN_RUN_STATES } from "../model/run.js";
import type { Supervisor } from "../supervisor/api.js";

/** Closes sessions of one-shot agents, which are opened per prompt and never closed otherwise. */
async function closeIdleSessions(sessions: Sessions, gatewayInstanceId: string): Promise<number> {
  const idleSince = Date.now() - defaults.sessionsKeptMs;
  const idle = await sessions.list({ open: true, backend: CLI_BACKEND, idleSince });
  const ours = idle.filter((row) => row.gatewayInstanceId === gatewayInstanceId);
  for (const { id } of ours) await sessions.close(id, "idle");
  return ours.length;
}

/** Stops runs that were removed while running and whose stop was lost with a former gateway. Idempotent. */
export async function stopRemovedRuns(supervisor: Supervisor, beingStopped: Set<string>): Promise<void> {
  const open = await supervisor.listRuns({ ...(await supervisor.scope()), states: OPEN_RUN_STATES });
  for (const { runId, hiddenAt } of open) {
    if (hiddenAt === null || beingStopped.has(runId)) continue;
    beingStopped.add(runId);
    void supervisor
      .stop(runId, { actor: "removed" })
      .catch(() => undefined)
      .finally(() => beingStopped.delete(runId));
  }
}

/** Numbers of records that were deleted. */
export interface DeletedRecords {
  readonly sessions: number;
  readonly approvals: number;
  readonly messages: number;
  readonly updates: number;
}

/** Deletes records that are kept for a limited time, and closes idle sessions of one-shot agents. */
export async function applyRetention(
  store: Store,
  sessions: Sessions,
  gatewayInstanceId: string,
): Promise<DeletedRecords> {
  await store.deleteRemoteStops(defaults.commandsKeptMs);
  await store.deleteSilentGateways(defaults.gatewaysKeptMs);
  await store.deleteEndedTokens(Date.now());
  return {
    approvals: await store.deleteDecidedApprovals(Date.now() - defaults.approvalsKeptMs),
    messages: await store.deleteSettledMessages(Date.now() - defaults.messagesKeptMs),
    updates: await store.deleteAcpUpdates(Date.now() - defaults.acpUpdatesKeptMs),
    sessions:
      (await closeIdleSessions(sessions, gatewayInstanceId)) +
      (await store.deleteClosedSessions(Date.now() - defaults.sessionsKeptMs)),
  };
}
