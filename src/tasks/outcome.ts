import type { EndReason, RunExit, RunRecord } from "../model/run.js";
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
