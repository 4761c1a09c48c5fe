import type { AcpController } from "../../acp/controller.js";
import { defaults } from "../../defaults.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { AcpStore } from "../../store/acp-store.js";
import type { RunRecord } from "../../store/run-record.js";
import type { TaskRecord } from "../../store/task-record.js";
import type { Supervisor } from "../../supervisor/api.js";
import type { Backing } from "../../tasks/maintenance.js";
import { finishOfRun } from "../../tasks/run-end.js";
import type { Finish } from "../../tasks/transition.js";
import { finishOfTurn } from "../../tasks/turn-end.js";
import { CLI_BACKEND, failureAlone, type AgentRuns } from "../agent-runs.js";
import { lastLines } from "./last-lines.js";

export interface BackingParts {
  readonly supervisor: Pick<Supervisor, "getRun" | "readOutput">;
  readonly store: Pick<AcpStore, "getAcpTurn" | "getAcpSession">;
  readonly sessions: Pick<Sessions, "get">;
  readonly acp: Pick<AcpController, "isLost">;
  readonly agentRuns: Pick<AgentRuns, "result">;
  /** Whether a run is of this state directory: of others, what they said lies elsewhere. */
  readonly isHere: (run: RunRecord) => boolean;
}

/** What became of whoever does a task's work, by what is on record. */
export async function backingOf(parts: BackingParts, task: TaskRecord): Promise<Backing> {
  if (task.runtime === "external") return { state: "unknown" };
  if (task.turnId !== null) return ofTurn(parts, task, task.turnId);
  const run = task.runId === null ? null : await parts.supervisor.getRun(task.runId);
  return run === null ? { state: "gone" } : ofRun(parts, run);
}

async function ofTurn(parts: BackingParts, task: TaskRecord, turnId: string): Promise<Backing> {
  const { store, acp } = parts;
  const turn = await store.getAcpTurn(turnId);
  if (turn === null) return { state: "gone" };
  const finish = finishOfTurn(turn);
  if (finish !== null) {
    const run = turn.outcome === "interrupted" ? await agentOf(parts, task) : null;
    return { state: "ended", finish: run === null ? finish : interrupted(finish, run) };
  }
  const session = await store.getAcpSession(turn.sessionId);
  if (session === null || (await acp.isLost(session))) return { state: "gone" };
  const { startedAt } = turn;
  return { state: "alive", startedAt, activeAt: startedAt === null ? null : session.updatedAt };
}

async function agentOf({ supervisor }: BackingParts, { runId }: TaskRecord): Promise<RunRecord | null> {
  return runId === null ? null : supervisor.getRun(runId);
}

/** Of an agent that was ended in the middle, its run knows by whom, and why. */
function interrupted(finish: Finish, run: RunRecord): Finish {
  const byRun = finishOfRun(run, null);
  if (byRun === null || byRun.status === "succeeded" || byRun.status === "failed") return finish;
  const { status, error, actor } = byRun;
  return { ...finish, status, error, actor };
}

async function ofRun(parts: BackingParts, run: RunRecord): Promise<Backing> {
  if (run.state === "exited") return endedRun(parts, run);
  if (!parts.isHere(run)) return { state: "unknown" };
  // A service that was made of it may be silent for as long as it likes.
  const activeAt = run.kind === "service" ? Date.now() : (run.lastOutputAt ?? run.startedAt);
  return { state: "alive", startedAt: run.startedAt, activeAt };
}

async function endedRun(parts: BackingParts, run: RunRecord): Promise<Backing> {
  const here = parts.isHere(run);
  // Its own gateway can say what came of it; one that does not come back cannot.
  const soon = Date.now() - (run.endedAt ?? 0) < defaults.taskLostMs;
  if (!here && soon) return { state: "unknown" };
  const finish = finishOfRun(run, here ? await lastLines(parts.supervisor, run).catch(() => null) : null);
  if (finish === null) return { state: "unknown" };
  const told = finish.status === "cancelled" ? { ...finish, summary: null } : finish;
  return { state: "ended", finish: run.backendId === CLI_BACKEND ? await answered(parts, run, told) : told };
}

/** Of an agent's command the result is its answer, not what it printed. */
async function answered(
  { sessions, agentRuns }: BackingParts,
  run: RunRecord,
  finish: Finish,
): Promise<Finish> {
  const session = run.sessionId === null ? null : await sessions.get(run.sessionId);
  const result = session === null ? null : await agentRuns.result(session, run.runId);
  if (result === null) return finish;
  if (result.error === null) return { ...finish, summary: result.text };
  if (finish.status !== "succeeded" && finish.status !== "failed") return { ...finish, summary: null };
  const error = failureAlone(result.error);
  return { ...finish, status: "failed", outcome: null, summary: null, error };
}
