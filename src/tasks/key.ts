import { defaults } from "../defaults.js";
import { BadInput } from "../errors.js";

/** What may have one task only. */
export function taskKeyOfRun(runId: string): string {
  return `run:${runId}`;
}

export function taskKeyOfTurn(turnId: string): string {
  return `turn:${turnId}`;
}

/** A name that means something to whoever gave it, and to nobody else. Null: an operator. */
export function taskKeyOfCaller(sessionId: string | null, name: string): string {
  if (name === "" || name.length > defaults.taskKeyChars)
    throw new BadInput(
      "key",
      `a task's key has 1 to ${defaults.taskKeyChars} characters; nothing was recorded`,
    );
  return `caller:${sessionId ?? "operator"}:${name}`;
}
