import { defaults } from "../defaults.js";
import type { AcpTurn } from "../model/acp/session-and-turn.js";
import type { EndReason, RunExit, RunRecord } from "../model/run.js";
import type { TaskOutcome } from "../model/task.js";
import { truncateStart } from "../text/truncate.js";
import type { TaskFinish } from "./transition.js";

type TaskEndStatus = TaskFinish["status"];

/** The status of a task by how its run ended. For `exit`, the code decides. */
const statusByEndReason: Readonly<Record<Exclude<EndReason, "exit">, TaskEndStatus>> = {
  signal: "failed",
  "spawn-error": "failed",
  "manual-cancel": "cancelled",
  "overall-timeout": "timed_out",
  "no-output-timeout": "timed_out",
  "ownership-escape": "failed",
  "owner-lost": "lost",
  lost: "lost",
  shutdown: "cancelled",
};

export function taskStatusOfExit({ reason, code }: Pick<RunExit, "reason" | "code">): TaskEndStatus {
  if (reason === "exit") return code === 0 ? "succeeded" : "failed";
  return statusByEndReason[reason];
}

/** The end of a task whose run has ended. Null: it has not. A run that could not be started counts as started when it was created. */
export function outcomeOfRun(run: RunRecord, summary: string | null): TaskFinish | null {
  const { exit, createdAt, startedAt, endedAt } = run;
  if (exit === null) return null;
  const status = taskStatusOfExit(exit);
  const outcome = status === "succeeded" ? "succeeded" : null;
  return {
    type: "finish",
    status,
    outcome,
    summary,
    error: status === "succeeded" ? null : describeFailure(exit),
    actor: exit.actor,
    startedAt: startedAt ?? createdAt,
    at: endedAt ?? createdAt,
  };
}

function describeFailure({ reason, code, signal, detail, actor }: RunExit): string {
  if (detail !== null) return detail;
  switch (reason) {
    case "exit":
      return `it exited with code ${code ?? "unknown"}`;
    case "signal":
      return `it was ended by ${signal ?? "a signal"}`;
    case "manual-cancel":
      return actor === "" ? "it was cancelled" : `it was cancelled by ${actor}`;
    case "overall-timeout":
      return "it exceeded its timeout";
    case "no-output-timeout":
      return "it exceeded the limit without output";
    case "spawn-error":
      return "it could not be started";
    case "ownership-escape":
      return "it left processes behind";
    case "owner-lost":
      return "its supervisor was lost";
    case "lost":
      return "how it ended is not known";
    case "shutdown":
      return "it was stopped with its supervisor";
  }
}

interface TurnOutcome {
  readonly status: TaskFinish["status"];
  readonly outcome: TaskOutcome | null;
  /** Used if the turn itself has no problem on record. */
  readonly error: string | null;
}

const SUCCEEDED: TurnOutcome = { status: "succeeded", outcome: "succeeded", error: null };
const BLOCKED: TurnOutcome = { status: "succeeded", outcome: "blocked", error: null };
const failedWith = (error: string): TurnOutcome => ({ status: "failed", outcome: null, error });
const CANCELLED: TurnOutcome = { status: "cancelled", outcome: null, error: null };

/** By the stop reason of the agent's answer. An unknown reason counts as success, because the agent did answer. */
const outcomeByStopReason: Readonly<Record<string, TurnOutcome>> = {
  end_turn: SUCCEEDED,
  max_tokens: BLOCKED,
  max_turn_requests: BLOCKED,
  refusal: failedWith("the agent refused to continue"),
  cancelled: CANCELLED,
};

function turnOutcomeOf({ outcome, stopReason, problem, cancel }: AcpTurn): TurnOutcome {
  switch (outcome) {
    case null:
    case "completed":
      return outcomeByStopReason[stopReason ?? ""] ?? SUCCEEDED;
    case "cancelled":
    case "cancel-unconfirmed":
      return CANCELLED;
    case "interrupted":
      return cancel === null ? failedWith("the agent's process ended during the turn") : CANCELLED;
    case "failed":
      if (problem?.code === "ACP_TIMEOUT") return { status: "timed_out", outcome: null, error: null };
      return failedWith("the agent failed");
  }
}

/** The end of a task whose turn has ended. Null: it has not. The text of a failed turn is not a result. */
export function outcomeOfTurn(turn: AcpTurn): TaskFinish | null {
  if (turn.state !== "ended") return null;
  const { status, outcome, error } = turnOutcomeOf(turn);
  const { createdAt, startedAt, endedAt, cancel, problem } = turn;
  const actor = cancel?.actor ?? "";
  const cancelled = actor === "" ? "it was cancelled" : `it was cancelled by ${actor}`;
  return {
    type: "finish",
    at: endedAt ?? createdAt,
    status,
    outcome,
    summary: status === "succeeded" ? truncateStart(turn.text.trim(), defaults.taskSummaryChars) : null,
    error: status === "cancelled" ? cancelled : status === "succeeded" ? null : (problem?.message ?? error),
    actor,
    startedAt: startedAt ?? (status === "cancelled" ? null : createdAt),
  };
}
