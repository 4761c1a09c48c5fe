import { isStoppedByController } from "../../acp/agent/agent-exit.js";
import type { AcpController } from "../../acp/controller.js";
import { defaults } from "../../defaults.js";
import type { RunRecord } from "../../model/run.js";
import { CLI_BACKEND } from "../../model/enums.js";
import type { TaskRecord } from "../../model/task.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { AcpStore } from "../../store/acp/contract.js";
import type { Supervisor } from "../../supervisor/api.js";
import { outcomeOfRun, outcomeOfTurn } from "../../tasks/outcome.js";
import type { WorkStatus } from "../../tasks/plan-maintenance.js";
import type { TaskFinish } from "../../tasks/transition.js";
import type { OneShotAgents } from "./one-shot-agents.js";
import { summarizeOutput } from "./newest-output.js";

export interface WorkStatusDeps {
  readonly supervisor: Pick<Supervisor, "getRun" | "readOutput">;
  readonly store: Pick<AcpStore, "getAcpTurn" | "getAcpSession">;
  readonly sessions: Pick<Sessions, "get">;
  readonly acp: Pick<AcpController, "isLost">;
  readonly oneShotAgents: Pick<OneShotAgents, "result">;
  /** True if a run belongs to this state directory, so that its output can be read. */
  readonly isHere: (run: RunRecord) => boolean;
}

/** The state of a task's work, from the records of its run, turn or session. */
export async function workStatusOf(deps: WorkStatusDeps, task: TaskRecord): Promise<WorkStatus> {
  if (task.runtime === "external") return { state: "unknown" };
  if (task.turnId !== null) return turnStatus(deps, task, task.turnId);
  const run = task.runId === null ? null : await deps.supervisor.getRun(task.runId);
  return run === null ? { state: "gone" } : runStatus(deps, run);
}

async function turnStatus(deps: WorkStatusDeps, task: TaskRecord, turnId: string): Promise<WorkStatus> {
  const { store, acp } = deps;
  const turn = await store.getAcpTurn(turnId);
  if (turn === null) return { state: "gone" };
  const finish = outcomeOfTurn(turn);
  if (finish !== null) {
    const run = turn.outcome === "interrupted" ? await agentRun(deps, task) : null;
    return { state: "ended", finish: run === null ? finish : withInterruption(finish, run) };
  }
  const session = await store.getAcpSession(turn.sessionId);
  if (session === null || (await acp.isLost(session))) return { state: "gone" };
  const { startedAt, stalledAt } = turn;
  // The record of a stall is no activity.
  return {
    state: "alive",
    startedAt,
    activeAt: startedAt === null ? null : (stalledAt ?? session.updatedAt),
  };
}

async function agentRun({ supervisor }: WorkStatusDeps, { runId }: TaskRecord): Promise<RunRecord | null> {
  return runId === null ? null : supervisor.getRun(runId);
}

/** The run of an interrupted agent has the actor and reason of its end. An agent that failed was not cancelled. */
function withInterruption(finish: TaskFinish, run: RunRecord): TaskFinish {
  if (isStoppedByController(run.exit)) return finish;
  const byRun = outcomeOfRun(run, null);
  if (byRun === null || byRun.status === "succeeded" || byRun.status === "failed") return finish;
  const { status, error, actor } = byRun;
  return { ...finish, status, error, actor };
}

async function runStatus(deps: WorkStatusDeps, run: RunRecord): Promise<WorkStatus> {
  if (run.state === "exited") return endedRunStatus(deps, run);
  if (!deps.isHere(run)) return { state: "unknown" };
  // A run that became a service may be silent.
  const activeAt = run.kind === "service" ? Date.now() : (run.lastOutputAt ?? run.startedAt);
  return { state: "alive", startedAt: run.startedAt, activeAt };
}

async function endedRunStatus(deps: WorkStatusDeps, run: RunRecord): Promise<WorkStatus> {
  const here = deps.isHere(run);
  // Only the run's own gateway can read its output.
  const soon = Date.now() - (run.endedAt ?? 0) < defaults.taskLostMs;
  if (!here && soon) return { state: "unknown" };
  const finish = outcomeOfRun(
    run,
    here ? await summarizeOutput(deps.supervisor, run).catch(() => null) : null,
  );
  if (finish === null) return { state: "unknown" };
  const shown = finish.status === "cancelled" ? { ...finish, summary: null } : finish;
  return {
    state: "ended",
    finish: run.backendId === CLI_BACKEND ? await withAgentAnswer(deps, run, shown) : shown,
  };
}

/** The result of a one-shot agent is its answer, not its output. */
async function withAgentAnswer(
  { sessions, oneShotAgents }: WorkStatusDeps,
  run: RunRecord,
  finish: TaskFinish,
): Promise<TaskFinish> {
  const session = run.sessionId === null ? null : await sessions.get(run.sessionId);
  const result = session === null ? null : await oneShotAgents.result(session, run.runId);
  if (result === null) return finish;
  if (result.error === null) return { ...finish, summary: result.text };
  if (finish.status !== "succeeded" && finish.status !== "failed") return { ...finish, summary: null };
  return { ...finish, status: "failed", outcome: null, summary: null, error: result.error };
}
