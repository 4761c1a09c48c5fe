import type { EndReason, RunExit, RunRecord } from "../store/run-record.js";
import type { Finish } from "./transition.js";

type EndStatus = Finish["status"];

/** What the end of a run is for its task. `exit`: by its code. */
const byReason: Readonly<Record<Exclude<EndReason, "exit">, EndStatus>> = {
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

export function statusOfExit({ reason, code }: Pick<RunExit, "reason" | "code">): EndStatus {
  if (reason === "exit") return code === 0 ? "succeeded" : "failed";
  return byReason[reason];
}

/** The end of the task of a run that has ended. Null: it has not. A run that could not be started began when it was tried. */
export function finishOfRun(run: RunRecord, summary: string | null): Finish | null {
  const { exit, createdAt, startedAt, endedAt } = run;
  if (exit === null) return null;
  const status = statusOfExit(exit);
  const outcome = status === "succeeded" ? "succeeded" : null;
  return {
    type: "finish",
    status,
    outcome,
    summary,
    error: status === "succeeded" ? null : complaint(exit),
    actor: exit.actor,
    startedAt: startedAt ?? createdAt,
    at: endedAt ?? createdAt,
  };
}

function complaint({ reason, code, signal, detail, actor }: RunExit): string {
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
