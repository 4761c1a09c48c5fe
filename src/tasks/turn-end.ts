import { defaults } from "../defaults.js";
import type { AcpTurn } from "../store/acp-record.js";
import type { TaskOutcome } from "../store/task-record.js";
import type { Finish } from "./transition.js";

interface Ending {
  readonly status: Finish["status"];
  readonly outcome: TaskOutcome | null;
  /** For one that does not say itself what went wrong. */
  readonly error: string | null;
}

const done: Ending = { status: "succeeded", outcome: "succeeded", error: null };
const blocked: Ending = { status: "succeeded", outcome: "blocked", error: null };
const failed = (error: string): Ending => ({ status: "failed", outcome: null, error });
const cancelled: Ending = { status: "cancelled", outcome: null, error: null };

/** How an agent that answered says that it stopped. What is not known here is taken for done: it did answer. */
const byStopReason: Readonly<Record<string, Ending>> = {
  end_turn: done,
  max_tokens: blocked,
  max_turn_requests: blocked,
  refusal: failed("the agent refused to go on"),
  cancelled,
};

function endingOf({ outcome, stopReason, problem, cancel }: AcpTurn): Ending {
  switch (outcome) {
    case null:
    case "completed":
      return byStopReason[stopReason ?? ""] ?? done;
    case "cancelled":
    case "cancel-unconfirmed":
      return cancelled;
    case "interrupted":
      return cancel === null ? failed("its agent's process ended on the way") : cancelled;
    case "failed":
      if (problem?.code === "ACP_TIMEOUT") return { status: "timed_out", outcome: null, error: null };
      return failed("the agent could not do it");
  }
}

/** The end of the task of a turn that has ended. Null: it has not. What was said on the way to a failure is no result. */
export function finishOfTurn(turn: AcpTurn): Finish | null {
  if (turn.state !== "ended") return null;
  const { status, outcome, error } = endingOf(turn);
  const { createdAt, startedAt, endedAt, cancel, problem } = turn;
  const actor = cancel?.actor ?? "";
  const byWhom = actor === "" ? "it was cancelled" : `it was cancelled by ${actor}`;
  return {
    type: "finish",
    at: endedAt ?? createdAt,
    status,
    outcome,
    summary: status === "succeeded" ? lastOf(turn.text.trim(), defaults.taskSummaryChars) : null,
    error: status === "cancelled" ? byWhom : status === "succeeded" ? null : (problem?.message ?? error),
    actor,
    startedAt: startedAt ?? (status === "cancelled" ? null : createdAt),
  };
}

/** Of a long answer, the end: that is where agents say what came of it. */
function lastOf(text: string, chars: number): string {
  return text.length <= chars ? text : `…${text.slice(1 - chars).replace(/^[\uDC00-\uDFFF]/, "")}`;
}
