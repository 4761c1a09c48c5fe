import type { Survivor } from "../../model/process.js";
import { describeSurvivor } from "../../anchor/inspect/liveness.js";
import type { ResponseOf } from "../../api/contract.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { openLocalState } from "../client/local-state.js";
import { requireRun, resolveRun, resolveRunId } from "../client/resolve-run.js";
import { formatDuration } from "../options/units.js";
import { exitCodes } from "../print/exit-code.js";
import { runStatusText } from "../print/run-status.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import {
  type DirectStop,
  printRemark,
  StopCoordinator,
  stopFoundRun,
  type StopOperation,
  type StopResult,
} from "./stop-coordinator.js";

export interface StopRunRequest {
  readonly wanted: string;
  /** Null: the run's own. */
  readonly graceMs: number | null;
  readonly json: boolean;
}

type KillAnswer = ResponseOf<"kill">;

/** What became of a run that was to be stopped. */
export type StopOutcome =
  | DirectStop["outcome"]
  /** Its host has it, and has not said yet that it is done. */
  | { readonly outcome: "handed-over"; readonly detail: string; readonly command: KillAnswer["command"] };

/** One run, by its id or the beginning of it. */
export function runStopOperation(wanted: string, graceMs: number | null): StopOperation<KillAnswer> {
  return {
    graceMs,
    ask: async ({ client }, signal) => {
      const runId = await resolveRunId({ client }, wanted, signal);
      return client.kill({ params: { runId }, body: graceMs === null ? {} : { graceMs } }, signal);
    },
    // A run on another host can be stopped only by the gateway there.
    isSettled: ({ outcome, command }) => outcome !== "unknown" || command !== null,
    find: async (localState) => [await requireRun(localState, wanted)],
  };
}

export async function stopRunCommand({ wanted, graceMs, json }: StopRunRequest): Promise<number> {
  const stopped = await new StopCoordinator(graceMs).stop(runStopOperation(wanted, graceMs));
  const { runId, outcome } = stopOutcome(stopped);
  if (json) print(toJson({ runId, through: stopped.through, ...outcome }));
  else printStopOutcome(runId, outcome);
  if (stopped.through === "direct") printRemark(stopped.remark);
  return stopExitCode(outcome.outcome);
}

/** Of a stop of one run. */
export function stopOutcome(stopped: StopResult<KillAnswer>): {
  readonly runId: string;
  readonly outcome: StopOutcome;
} {
  if (stopped.through === "gateway")
    return { runId: stopped.answer.run.runId, outcome: toStopOutcome(stopped.answer) };
  const [run] = stopped.runs;
  if (run === undefined) throw new Error("no run was stopped");
  return run;
}

/** What a gateway answered. */
export function toStopOutcome(answer: KillAnswer): StopOutcome {
  const { outcome, survivors, run, command } = answer;
  switch (outcome) {
    case "gone":
      return { outcome, detail: runStatusText(run) };
    case "ended-before":
      return { outcome, detail: `it had ended before: ${runStatusText(run)}` };
    case "survivors":
      return { outcome, survivors, detail: "its anchor stays and goes on trying" };
    case "handed-over":
      return { outcome, detail: handedOverText(answer), command };
    case "unknown":
      return { outcome, detail: command?.error ?? "no anchor answers for it, and nothing was signalled" };
  }
}

export function printStopOutcome(runId: string, outcome: StopOutcome): void {
  switch (outcome.outcome) {
    case "gone":
      return print(`${runId} is gone (${sanitizeLine(outcome.detail)})\n`);
    case "ended-before":
      return print(`${runId}: ${sanitizeLine(outcome.detail)}\n`);
    case "survivors":
      print(`${runId} has survivors:\n${survivorLines(outcome.survivors).join("\n")}\n`);
      return notice(outcome.detail, "yellow");
    case "unknown":
    case "handed-over":
      return notice(`${runId}: ${outcome.detail}`, "yellow");
  }
}

export function survivorLines(survivors: readonly Survivor[]): string[] {
  return survivors.map((each) => `  ${sanitizeLine(describeSurvivor(each))}`);
}

/**
 * A run's anchor needs no gateway to be told. How it ended is for the next gateway to say; what became of it, for this.
 * Null: nothing is known of it.
 */
export async function stopRunWithoutGateway(
  runId: string,
  graceMs: number | null,
  told: () => void,
): Promise<StopOutcome | null> {
  await using localState = await openLocalState();
  const found = localState === null ? null : await resolveRun(localState, runId);
  if (localState === null || found === null) return null;
  return await stopFoundRun(localState, found, graceMs, { onStopSent: told });
}

/** The exit code that goes with what became of a stop. */
export function stopExitCode(outcome: ResponseOf<"kill">["outcome"] | "left-alone"): number {
  if (outcome === "handed-over") return exitCodes.handedOver;
  return outcome === "gone" || outcome === "ended-before" ? 0 : exitCodes.incomplete;
}

/** Who was to stop a run of another host, and that nobody has said that it is done. */
export function handedOverText({ command }: Pick<ResponseOf<"kill">, "command">): string {
  if (command === null) return "";
  const { hostName, hostId, instanceId, lastHeardAt, accepted, id } = command;
  const heard =
    lastHeardAt === null ? "never heard of" : `last heard of ${formatDuration(Date.now() - lastHeardAt)} ago`;
  const so = accepted ? "taken up there, not yet done" : "not yet acknowledged";
  return `handed over to host ${hostName || hostId} (gateway ${instanceId}, ${heard}): ${so}; it is carried out when that host is there (${id})`;
}
