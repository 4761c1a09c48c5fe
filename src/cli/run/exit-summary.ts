import { describeSurvivor } from "../../anchor/inspect/liveness.js";
import type { RunRecord, RunStateName } from "../../model/run.js";
import type { Survivor } from "../../anchor/host.js";
import { runExitCode, exitCodes } from "../print/exit-code.js";
import { interruptExitCode, type InterruptSignal } from "./interrupts.js";
import type { WriteFailed } from "../print/fd-writer.js";
import { exitText } from "../foreground/verdict.js";

/** Everything that decides what `holdfast run` says and exits with. */
export interface RunEndState {
  /** As it stands when we leave: `exited`, unless some processes cannot be killed or the user would not wait. */
  readonly record: RunRecord;
  /** What was seen of the run itself, which may be ahead of its record. */
  readonly state: RunStateName;
  readonly survivors: readonly Survivor[];
  readonly interrupt: InterruptSignal | null;
  readonly writeFailure: WriteFailed | null;
}

export interface ExitSummary {
  readonly code: number;
  /** One line for stderr. */
  readonly message: string | null;
}

export function summarizeExit(endState: RunEndState): ExitSummary {
  const { record, interrupt, writeFailure } = endState;
  if (record.state !== "exited") {
    const code = interrupt === null ? exitCodes.failure : interruptExitCode(interrupt);
    return { code, message: leftRunText(endState) };
  }
  if (writeFailure !== null) return summarizeLostOutput(writeFailure, record);
  const interrupted = interrupt !== null && record.exit?.reason === "manual-cancel";
  return {
    code: interrupted ? interruptExitCode(interrupt) : runExitCode(record),
    message: exitText(record, interrupted),
  };
}

/** What it wrote is not all where it should be. That is a failure, unless the command has one of its own to tell. */
function summarizeLostOutput({ readerGone, message }: WriteFailed, record: RunRecord): ExitSummary {
  const cancelled = record.exit?.reason === "manual-cancel";
  const own = cancelled ? 0 : runExitCode(record);
  // `holdfast run -- yes | head -1`: the reader has all it wanted. That is nothing to talk about.
  if (readerGone)
    return { code: own || exitCodes.readerGone, message: own === 0 ? null : exitText(record, false) };
  const how = cancelled ? "the command was cancelled" : "the command has ended, but its output is incomplete";
  return { code: own || exitCodes.failure, message: `${message}; ${how}` };
}

function leftRunText({ record, state, survivors, interrupt }: RunEndState): string {
  const { runId, service } = record;
  if (service !== null) return `run ${runId} is a service now, and goes on`;
  if (state === "exited") return `run ${runId} is gone; the next gateway records its end`;
  if (survivors.length === 0) {
    const told = state === "exiting" || record.state === "exiting";
    // Out of sight, no gateway holds it: the anchor ends it for that.
    if (told || interrupt === null) return `left run ${runId} to its anchor, which goes on terminating it`;
    return `left run ${runId}, which may go on: neither its gateway nor its anchor has answered. \`holdfast runs cancel ${runId}\` tries again`;
  }
  const named = survivors.map(describeSurvivor).join(", ");
  return `could not kill ${named}; the anchor of run ${runId} stays and goes on trying`;
}
