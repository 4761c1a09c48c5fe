import { leftText } from "../../anchor/seen.js";
import type { Survivor } from "../../anchor/host.js";
import type { AnswerOf } from "../../gateway/contract/contract.js";
import { sanitizeLine } from "../../output/sanitize.js";
import { say } from "../complain.js";
import { toJson } from "../json.js";
import { fullRunId, handedOverText, stopCode } from "../process/act.js";
import { print } from "../runs/print.js";
import { statusOf } from "../runs/status.js";
import { sayRemark, StopPath, type DirectStop, type StopCommand, type Stopped } from "../stop/stop.js";
import { mustFindRun } from "./find-run.js";

export interface CancelRequest {
  readonly wanted: string;
  /** Null: the run's own. */
  readonly graceMs: number | null;
  readonly json: boolean;
}

type Answer = AnswerOf<"kill">;

/** What became of a run that was to be stopped. */
export type Outcome =
  | DirectStop["outcome"]
  /** Its host has it, and has not said yet that it is done. */
  | { readonly outcome: "handed-over"; readonly detail: string; readonly command: Answer["command"] };

/** One run, by its id or the beginning of it. */
export function runFace(wanted: string, graceMs: number | null): StopCommand<Answer> {
  return {
    graceMs,
    ask: async ({ client }, signal) => {
      const runId = await fullRunId({ client }, wanted, signal);
      return client.kill({ params: { runId }, body: graceMs === null ? {} : { graceMs } }, signal);
    },
    // A run on another host can be stopped only by the gateway there.
    settled: ({ outcome, command }) => outcome !== "unknown" || command !== null,
    find: async (observatory) => [await mustFindRun(observatory, wanted)],
  };
}

export async function cancelRun({ wanted, graceMs, json }: CancelRequest): Promise<number> {
  const stopped = await new StopPath(graceMs).stop(runFace(wanted, graceMs));
  const { runId, outcome } = outcomeOf(stopped);
  if (json) print(toJson({ runId, through: stopped.through, ...outcome }));
  else report(runId, outcome);
  if (stopped.through === "direct") sayRemark(stopped.remark);
  return stopCode(outcome.outcome);
}

/** Of a stop of one run. */
export function outcomeOf(stopped: Stopped<Answer>): { readonly runId: string; readonly outcome: Outcome } {
  if (stopped.through === "gateway")
    return { runId: stopped.answer.run.runId, outcome: asOutcome(stopped.answer) };
  const [run] = stopped.runs;
  if (run === undefined) throw new Error("no run was stopped");
  return run;
}

/** What a gateway answered. */
export function asOutcome(answer: Answer): Outcome {
  const { outcome, survivors, run, command } = answer;
  switch (outcome) {
    case "gone":
      return { outcome, detail: statusOf(run) };
    case "ended-before":
      return { outcome, detail: `it had ended before: ${statusOf(run)}` };
    case "survivors":
      return { outcome, survivors, detail: "its anchor stays and goes on trying" };
    case "handed-over":
      return { outcome, detail: handedOverText(answer), command };
    case "unknown":
      return { outcome, detail: command?.error ?? "no anchor answers for it, and nothing was signalled" };
  }
}

export function report(runId: string, outcome: Outcome): void {
  switch (outcome.outcome) {
    case "gone":
      return print(`${runId} is gone (${sanitizeLine(outcome.detail)})\n`);
    case "ended-before":
      return print(`${runId}: ${sanitizeLine(outcome.detail)}\n`);
    case "survivors":
      print(`${runId} has survivors:\n${survivorLines(outcome.survivors).join("\n")}\n`);
      return say(outcome.detail, "yellow");
    case "unknown":
    case "handed-over":
      return say(`${runId}: ${outcome.detail}`, "yellow");
  }
}

export function survivorLines(survivors: readonly Survivor[]): string[] {
  return survivors.map((each) => `  ${sanitizeLine(leftText(each))}`);
}
