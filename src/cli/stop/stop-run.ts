import type { ResponseOf } from "../../api/contract.js";
import { describeSurvivor, type Survivor } from "../../model/process.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { requireRun, resolveRun, resolveRunId } from "../client/resolve-run.js";
import { openLocalState } from "../../queries/local-state-directory.js";
import { formatDuration } from "../../text/format-units.js";
import { exitCodes } from "../print/exit-code.js";
import { runStatusText } from "../print/run-status.js";
import { notice, reportError } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import {
  type DirectStop,
  endedBeforeOutcome,
  printRemark,
  StopCoordinator,
  stopFoundRun,
  type StopOperation,
  type StopResult,
} from "./stop-coordinator.js";

type KillAnswer = ResponseOf<"kill">;

/** The result of a stop. */
export type StopOutcome =
  | DirectStop["outcome"]
  /** The gateway of another host has the request and has not confirmed the stop. */
  | { readonly outcome: "handed-over"; readonly detail: string; readonly command: KillAnswer["command"] };

/** Stops one run, by its id or name. */
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

/** `holdfast stop` and `holdfast kill`. A grace period of null is that of each run. */
export async function stopRuns(
  runs: readonly string[],
  graceMs: number | null,
  json: boolean,
): Promise<number> {
  return forEachRun(runs, async (wanted) => {
    const stopped = await new StopCoordinator(graceMs).stop(runStopOperation(wanted, graceMs));
    const { runId, outcome } = stopOutcome(stopped);
    if (json) print(toJson(stopResultJson(stopped)));
    else printStopOutcome(runId, outcome);
    if (stopped.through === "direct") printRemark(stopped.remark);
    return stopExitCode(outcome.outcome);
  });
}

/** Does the same to several runs at once. Returns the highest exit code; reports what went wrong with each. */
export async function forEachRun(
  runs: readonly string[],
  act: (wanted: string) => Promise<number>,
): Promise<number> {
  const [only] = runs;
  if (only !== undefined && runs.length === 1) return act(only);
  return Math.max(0, ...(await Promise.all([...new Set(runs)].map((each) => act(each).catch(reportError)))));
}

/** The JSON of a stop. Without a gateway `run` is null if the record could not be read. */
export function stopResultJson(stopped: StopResult<KillAnswer>): object {
  const { runId, outcome } = stopOutcome(stopped);
  const facts =
    stopped.through === "gateway"
      ? stopped.answer
      : { survivors: [], run: stopped.runs[0]?.record ?? null, command: null };
  return { runId, through: stopped.through, ...facts, ...outcome };
}

/** The result of an operation that stops one run. */
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

/** From the answer of a gateway. */
function toStopOutcome(answer: KillAnswer): StopOutcome {
  const { outcome, survivors, run, command } = answer;
  switch (outcome) {
    case "gone":
      // The gateway waits for the record only for a limited time.
      return { outcome, detail: run.state === "exited" ? runStatusText(run) : "its end is being recorded" };
    case "ended-before":
      return endedBeforeOutcome(run);
    case "survivors":
      return { outcome, survivors, detail: "its anchor keeps trying to kill them" };
    case "handed-over":
      return { outcome, detail: handedOverText(answer), command };
    case "unknown":
      return {
        outcome,
        detail:
          command?.error ??
          `no anchor answers, and nothing was signalled; see holdfast runs cleanup --run ${run.runId}`,
      };
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

function survivorLines(survivors: readonly Survivor[]): string[] {
  return survivors.map((each) => `  ${sanitizeLine(describeSurvivor(each))}`);
}

/** Stops a run through its anchor; the next gateway completes its record. Null: there is no such run. */
export async function stopRunWithoutGateway(
  runId: string,
  graceMs: number | null,
  onStopSent: () => void,
): Promise<StopOutcome | null> {
  await using localState = await openLocalState();
  const found = localState === null ? null : await resolveRun(localState, runId);
  if (localState === null || found === null) return null;
  return await stopFoundRun(localState, found, graceMs, { onStopSent });
}

/** The exit code for the result of a stop. */
export function stopExitCode(outcome: ResponseOf<"kill">["outcome"] | "left-alone"): number {
  if (outcome === "handed-over") return exitCodes.handedOver;
  return outcome === "gone" || outcome === "ended-before" ? 0 : exitCodes.incomplete;
}

/** The host that has the stop request, and the progress there. */
function handedOverText({ command }: Pick<ResponseOf<"kill">, "command">): string {
  if (command === null) return "";
  const { hostName, hostId, instanceId, lastHeardAt, accepted, id } = command;
  const seen =
    lastHeardAt === null ? "never seen" : `last seen ${formatDuration(Date.now() - lastHeardAt)} ago`;
  const progress = accepted ? "accepted there, not yet done" : "not yet acknowledged";
  return `forwarded to host ${hostName || hostId} (gateway ${instanceId}, ${seen}): ${progress}; the run is stopped when that host is available (${id})`;
}
