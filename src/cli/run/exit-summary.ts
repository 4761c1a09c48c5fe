import { describeSurvivor, type Residue, type Survivor } from "../../model/process.js";
import type { RunRecord, RunStateName } from "../../model/run.js";
import { formatDuration, formatSize } from "../../text/format-units.js";
import { exitCodes, runExitCode } from "../print/exit-code.js";
import type { WriteFailed } from "../print/write-output.js";
import { interruptExitCode, type InterruptSignal } from "./interrupt-signals.js";

/** Processes named in the line; the rest is counted. `inspect` lists all. */
const NAMED_RESIDUE = 3;

/** The actor of the stop of a run that outlived its input. */
export const INPUT_ENDED = "cli:input-ended";

/**
 * Describes the end besides the exit code, in one line; null: nothing. After Ctrl-C, only what was
 * cleaned up.
 */
function exitText(record: RunRecord, interrupted: boolean): string | null {
  const parts = [
    interrupted ? null : reasonText(record),
    limitHitText(record),
    residueText(record),
    unprovenText(record),
  ].filter((part) => part !== null);
  return parts.length === 0 ? null : parts.join("; ");
}

function reasonText({ exit, deadlines }: RunRecord): string | null {
  if (exit === null) return null;
  switch (exit.reason) {
    case "exit":
    case "signal":
      return null;
    case "overall-timeout":
      return `stopped: still running after ${durationText(deadlines.overallMs)} (--timeout)`;
    case "no-output-timeout":
      return `stopped: no output for ${durationText(deadlines.noOutputMs)} (--no-output-timeout)`;
    case "ownership-escape":
      return "the command left detached processes behind (--on-escape sweep accepts that)";
    case "spawn-error":
      return exit.detail ?? "the command could not be started";
    case "manual-cancel":
    case "shutdown":
    case "owner-lost":
      if (exit.actor === INPUT_ENDED) return "stopped: it did not end with its input (--end-with-input)";
      return `stopped${exit.actor === "" ? "" : ` by ${exit.actor}`}`;
    case "lost":
      return `the run was lost: ${exit.detail ?? "its end was not observed"}`;
  }
}

/** The limit may have hit another process than the leader. */
function limitHitText({ exit, limits }: RunRecord): string | null {
  switch (exit?.limitHit ?? null) {
    case null:
      return null;
    case "memory": {
      const limit = `over its memory limit of ${formatSize(limits.memoryBytes ?? 0)} (--memory)`;
      return exit?.signal === "SIGKILL"
        ? `ended by signal SIGKILL: ${limit}`
        : `a process of it was killed: ${limit}`;
    }
    case "pids":
      return `refused more processes and threads: at its limit of ${limits.pids ?? 0} (--pids)`;
  }
}

function residueText({ residue, residueCount }: RunRecord): string | null {
  if (residueCount === 0) return null;
  const named = residue.slice(0, NAMED_RESIDUE).map(residueName);
  const more = residueCount - named.length;
  if (more > 0) named.push(`${more} more`);
  return `cleaned up ${residueCount} leftover ${residueCount === 1 ? "process" : "processes"}: ${named.join(", ")}`;
}

function residueName({ command, pid, kind }: Residue): string {
  return `${command === "" ? "?" : command} (pid ${pid}, ${kind})`;
}

function unprovenText({ emptiness }: RunRecord): string | null {
  return emptiness === "unproven" ? "it is not proven that no process is left" : null;
}

function durationText(ms: number | null): string {
  return ms === null ? "its limit" : formatDuration(ms);
}

/** Everything that decides the last line and the exit code of `holdfast run`. */
export interface RunEndState {
  /** Its record at the end: `exited`, unless processes cannot be killed or the user did not wait. */
  readonly record: RunRecord;
  /** The observed state of the run, which may be ahead of its record. */
  readonly state: RunStateName;
  readonly survivors: readonly Survivor[];
  readonly interrupt: InterruptSignal | null;
  readonly writeFailure: WriteFailed | null;
}

interface ExitSummary {
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

/** Lost output is a failure, unless the command has failed itself. */
function summarizeLostOutput({ readerGone, message }: WriteFailed, record: RunRecord): ExitSummary {
  const cancelled = record.exit?.reason === "manual-cancel";
  const own = cancelled ? 0 : runExitCode(record);
  // `holdfast run -- yes | head -1`: a reader that has read enough is no failure.
  if (readerGone)
    return { code: own || exitCodes.readerGone, message: own === 0 ? null : exitText(record, false) };
  const how = cancelled ? "the command was stopped" : "the command has ended, but its output is incomplete";
  return { code: own || exitCodes.failure, message: `${message}; ${how}` };
}

function leftRunText({ record, state, survivors, interrupt }: RunEndState): string {
  const { runId, service } = record;
  if (service !== null) return `run ${runId} is a service now, and continues`;
  if (state === "exited") return `run ${runId} is gone; the next gateway records its end`;
  if (survivors.length === 0) {
    const stopping = state === "exiting" || record.state === "exiting";
    // Unreachable: no gateway owns the run, so its anchor ends it.
    if (stopping || interrupt === null)
      return `left run ${runId} to its anchor, which continues to terminate it`;
    return `left run ${runId}, which may continue: neither its gateway nor its anchor answered. \`holdfast runs stop ${runId}\` tries again`;
  }
  const named = survivors.map(describeSurvivor).join(", ");
  return `could not kill ${named}; the anchor of run ${runId} stays and keeps trying`;
}
