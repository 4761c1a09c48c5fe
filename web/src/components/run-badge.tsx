import type { Run } from "../api/types.js";
import { Badge, type Tone } from "./badge.js";

/** The state or the end of a run, in the words of `holdfast ps`. */
export function RunBadge({ run }: { readonly run: Pick<Run, "state" | "exit"> }) {
  return <Badge tone={runTone(run)}>{runStateText(run)}</Badge>;
}

export function runStateText({ state, exit }: Pick<Run, "state" | "exit">): string {
  if (state !== "exited" || exit === null) return state;
  if (exit.reason === "exit") return `exit ${exit.code ?? "?"}`;
  return exit.reason === "signal" ? (exit.signal ?? "signal") : exit.reason;
}

function runTone({ state, exit }: Pick<Run, "state" | "exit">): Tone {
  if (state !== "exited" || exit === null) return "live";
  if (exit.reason === "exit") return exit.code === 0 ? "good" : "bad";
  return exit.reason === "manual-cancel" || exit.reason === "shutdown" ? "quiet" : "bad";
}
