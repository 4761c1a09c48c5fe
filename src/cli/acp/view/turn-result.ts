import type { ResponseOf } from "../../../api/contract.js";
import { exitCodes } from "../../print/exit-code.js";

export type ShownTurn = ResponseOf<"acpPrompt">["turn"];

/** A notice about a turn and its colour. */
export type Notice = readonly [message: string, colour: "red" | "yellow" | "dim"];

/** The exit code of a command that has waited for a turn. */
export function turnExitCode(
  turn: Pick<ShownTurn, "outcome" | "stopReason" | "problem" | "contextLost">,
): number {
  switch (turn.outcome) {
    case "completed":
      if (turn.stopReason === "refusal") return exitCodes.refused;
      if (STOPPED_EARLY.test(turn.stopReason ?? "")) return exitCodes.incomplete;
      return turn.contextLost ? exitCodes.contextLost : 0;
    case "failed":
      return turn.problem?.code === "ACP_TIMEOUT" ? exitCodes.timeout : exitCodes.turnFailed;
    case "cancelled":
      return exitCodes.cancelled;
    case "cancel-unconfirmed":
      return exitCodes.cancelUnconfirmed;
    case "interrupted":
      return exitCodes.interrupted;
    case null:
      return exitCodes.failure;
  }
}

const STOPPED_EARLY = /^max_/;

/** What a user must know about the end of a turn. Null: it ended normally. */
export function turnEndNotice({
  outcome,
  stopReason,
  problem,
}: Pick<ShownTurn, "outcome" | "stopReason" | "problem">): Notice | null {
  const why = problem === null ? "" : `: ${problem.message}`;
  switch (outcome) {
    case "completed":
      if (stopReason === "refusal") return ["the agent refuses to go on", "yellow"];
      return STOPPED_EARLY.test(stopReason ?? "")
        ? [`the agent stopped early: ${stopReason}`, "yellow"]
        : null;
    case "cancelled":
      return [`the turn is cancelled${why}`, "dim"];
    case "cancel-unconfirmed":
      return [
        "the agent was told to stop and did not say that it has; the next prompt starts it anew",
        "yellow",
      ];
    case "interrupted":
      return [`the turn was interrupted, and the prompt will not be sent again${why}`, "red"];
    case "failed":
    case null:
      return [`the turn failed${why}`, "red"];
  }
}

export function auditNotice(audit: NonNullable<ShownTurn["audit"]>): Notice | null {
  const { left, reaped, survivors, unknown } = audit;
  const many = (of: typeof left): string => `${of.length} ${of.length === 1 ? "process" : "processes"}`;
  if (unknown !== null) {
    const known = left.length === 0 ? "" : `, but for ${many(left)}: ${processNames(left)}`;
    return [`what the turn has left running is not known (${unknown})${known}`, "yellow"];
  }
  if (left.length === 0) return null;
  if (!reaped)
    return [
      `the turn has left ${many(left)} running, until the session is closed: ${processNames(left)}`,
      "yellow",
    ];
  if (survivors.length === 0)
    return [`ended ${many(left)} that the turn had left: ${processNames(left)}`, "dim"];
  return [`the turn has left ${many(left)}, and these would not go: ${processNames(survivors)}`, "red"];
}

const NAMED_PROCESSES = 5;

export function processNames(
  processes: readonly { readonly pid: number; readonly command: string }[],
): string {
  const named = processes.slice(0, NAMED_PROCESSES).map(({ pid, command }) => `${command} (pid ${pid})`);
  return `${named.join(", ")}${processes.length > NAMED_PROCESSES ? ", …" : ""}`;
}

export const CONTEXT_LOST_NOTICE: Notice = [
  "the agent was started anew and knows nothing of what was said before",
  "yellow",
];
