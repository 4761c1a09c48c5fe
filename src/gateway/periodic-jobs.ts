import { defaults } from "../defaults.js";
import { OPEN_RUN_STATES } from "../model/run.js";
import { CLI_BACKEND } from "../model/enums.js";
import type { Sessions } from "../sessions/sessions.js";
import type { Store } from "../store/store.js";
import type { Supervisor } from "../supervisor/api.js";

/** Runs each job at its own interval, never twice at the same time. */
export class PeriodicJobs {
  readonly #onFailure: (message: string, cause: unknown) => void;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #running = new Set<Promise<void>>();
  #stopped = false;

  constructor(onFailure: (message: string, cause: unknown) => void) {
    this.#onFailure = onFailure;
  }

  /** Resolves after the first run of the job. A failed run is reported and retried at the next interval. Never rejects. */
  schedule(name: string, everyMs: number, job: () => Promise<void>): Promise<void> {
    const running = this.#runAndReschedule(name, everyMs, job);
    this.#running.add(running);
    void running.finally(() => this.#running.delete(running));
    return running;
  }

  async #runAndReschedule(name: string, everyMs: number, job: () => Promise<void>): Promise<void> {
    if (!this.#stopped) await this.#runOnce(name, job);
    if (this.#stopped) return;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      void this.schedule(name, everyMs, job);
    }, everyMs);
    this.#timers.add(timer);
  }

  /** Stops all jobs. Resolves when none runs. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
    await Promise.all(this.#running);
  }

  async #runOnce(name: string, job: () => Promise<void>): Promise<void> {
    try {
      await job();
    } catch (cause) {
      if (!this.#stopped) this.#onFailure(`${name} failed; retrying`, cause);
    }
  }
}

/** Closes sessions of one-shot agents, which are opened per prompt and never closed otherwise. */
async function closeIdleSessions(sessions: Sessions, gatewayInstanceId: string): Promise<number> {
  const idleSince = Date.now() - defaults.sessionsKeptMs;
  const idle = await sessions.list({ open: true, backend: CLI_BACKEND, idleSince });
  const ours = idle.filter((row) => row.gatewayInstanceId === gatewayInstanceId);
  for (const { id } of ours) await sessions.close(id, "idle");
  return ours.length;
}

/**
 * Stops runs that were removed while running and whose stop was lost with a former gateway. Idempotent. True: there are
 * such runs.
 */
export async function stopRemovedRuns(supervisor: Supervisor, beingStopped: Set<string>): Promise<boolean> {
  const open = await supervisor.listRuns({ ...(await supervisor.scope()), states: OPEN_RUN_STATES });
  const removed = open.filter(({ hiddenAt }) => hiddenAt !== null);
  for (const { runId } of removed) {
    if (beingStopped.has(runId)) continue;
    beingStopped.add(runId);
    void supervisor
      .stop(runId, { actor: "removed" })
      .catch(() => undefined)
      .finally(() => beingStopped.delete(runId));
  }
  return removed.length > 0;
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
