import { ACP_BACKEND } from "../model/enums.js";
import type { AcpSession } from "../model/acp/session-and-turn.js";
import { type LeaseState, leaseStateOf, type RunRecord } from "../model/run.js";
import type { SessionRecord, SessionRow } from "../model/session.js";
import type { AcpReads } from "../store/acp/contract.js";
import type { RunFilter } from "../store/runs/contract.js";

export interface RunLookup {
  getRun(runId: string): Promise<RunRecord | null>;
  listRuns(filter: RunFilter): Promise<readonly RunRecord[]>;
}

interface SessionLease {
  readonly leaseId: string | null;
  readonly leaseState: LeaseState | null;
}

/** The lease of a run. Null: there is no run. */
export function leaseOf(run: RunRecord | null): SessionLease {
  return run === null
    ? { leaseId: null, leaseState: null }
    : { leaseId: run.leaseId, leaseState: leaseStateOf(run) };
}

/** The last run of a session's agent. Null: its agent has not run, or the record was removed. */
export async function agentRun(
  store: Pick<RunLookup, "getRun">,
  { runId }: Pick<AcpSession, "runId">,
): Promise<RunRecord | null> {
  return runId === null ? null : store.getRun(runId);
}

/** The last runs of the agents of several sessions, by run id. */
export async function agentRuns(
  store: Pick<RunLookup, "listRuns">,
  sessions: readonly Pick<AcpSession, "runId">[],
): Promise<ReadonlyMap<string, RunRecord>> {
  const runIds = sessions.map(({ runId }) => runId).filter((runId) => runId !== null);
  const runs = runIds.length === 0 ? [] : await store.listRuns({ runIds, withoutLabels: true });
  return new Map(runs.map((run) => [run.runId, run]));
}

/** Sessions with the leases of their agents. */
export async function withLeases(
  sessions: readonly SessionRecord[],
  store: Pick<RunLookup, "listRuns"> & Pick<AcpReads, "listAcpSessions">,
): Promise<SessionRow[]> {
  const sessionIds = sessions.filter(({ backend }) => backend === ACP_BACKEND).map(({ id }) => id);
  const acp = sessionIds.length === 0 ? [] : await store.listAcpSessions({ sessionIds });
  const runs = await agentRuns(store, acp);
  const runOf = new Map(acp.map(({ sessionId, runId }) => [sessionId, runs.get(runId ?? "") ?? null]));
  return sessions.map((session) => ({ ...session, ...leaseOf(runOf.get(session.id) ?? null) }));
}
