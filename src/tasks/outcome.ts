import { defaults } from "../defaults.js";
import type { AcpTurn } from "../model/acp.js";
import type { EndReason, RunExit, RunRecord } from "../model/run.js";
import type { TaskOutcome } from "../model/task.js";
import type { TaskFinish } from "./transition.js";

type TaskEndStatus = TaskFinish["status"];

/** What the end of a run is for its task. `exit`: by its code. */
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

/** The end of the task of a run that has ended. Null: it has not. A run that could not be started began when it was tried. */
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
      return `it ended with code ${code ?? "unknown"}`;
    case "signal":
      return `it was ended by ${signal ?? "a signal"}`;
    case "manual-cancel":
      return actor === "" ? "it was cancelled" : `it was cancelled by ${actor}`;
    case "overall-timeout":
      return "it took longer than it may";
    case "no-output-timeout":
      return "it was silent for longer than it may";
    case "spawn-error":
      return "it could not be started";
    case "ownership-escape":
      return "it left processes behind";
    case "owner-lost":
      return "nobody was there to see to it";
    case "lost":
      return "what became of it is not known";
    case "shutdown":
      return "it was ended with its supervisor";
  }
}

interface TurnOutcome {
  readonly status: TaskFinish["status"];
  readonly outcome: TaskOutcome | null;
  /** For one that does not say itself what went wrong. */
  readonly error: string | null;
}

const SUCCEEDED: TurnOutcome = { status: "succeeded", outcome: "succeeded", error: null };
const BLOCKED: TurnOutcome = { status: "succeeded", outcome: "blocked", error: null };
const failedWith = (error: string): TurnOutcome => ({ status: "failed", outcome: null, error });
const CANCELLED: TurnOutcome = { status: "cancelled", outcome: null, error: null };

/** How an agent that answered says that it stopped. What is not known here is taken for done: it did answer. */
const outcomeByStopReason: Readonly<Record<string, TurnOutcome>> = {
  end_turn: SUCCEEDED,
  max_tokens: BLOCKED,
  max_turn_requests: BLOCKED,
  refusal: failedWith("the agent refused to go on"),
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
      return cancel === null ? failedWith("its agent's process ended on the way") : CANCELLED;
    case "failed":
      if (problem?.code === "ACP_TIMEOUT") return { status: "timed_out", outcome: null, error: null };
      return failedWith("the agent could not do it");
  }
}

/** The end of the task of a turn that has ended. Null: it has not. What was said on the way to a failure is no result. */
export function outcomeOfTurn(turn: AcpTurn): TaskFinish | null {
  if (turn.state !== "ended") return null;
  const { status, outcome, error } = turnOutcomeOf(turn);
  const { createdAt, startedAt, endedAt, cancel, problem } = turn;
  const actor = cancel?.actor ?? "";
  const byWhom = actor === "" ? "it was cancelled" : `it was cancelled by ${actor}`;
  return {
    type: "finish",
    at: endedAt ?? createdAt,
    status,
    outcome,
    summary: status === "succeeded" ? keepEnd(turn.text.trim(), defaults.taskSummaryChars) : null,
    error: status === "cancelled" ? byWhom : status === "succeeded" ? null : (problem?.message ?? error),
    actor,
    startedAt: startedAt ?? (status === "cancelled" ? null : createdAt),
  };
}

/** Of a long answer, the end: that is where agents say what came of it. */
function keepEnd(text: string, chars: number): string {
  return text.length <= chars ? text : `…${text.slice(1 - chars).replace(/^[\uDC00-\uDFFF]/, "")}`;
}
