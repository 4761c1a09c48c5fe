import type { Residue, RunRecord } from "../../model/run.js";
import { formatDuration } from "../options/units.js";
import { formatSize } from "../size.js";

/** Named in the line; the rest is counted. `runs show` has them all. */
const NAMED_RESIDUE = 3;

/**
 * What a person must know about an end beside its exit code, in one line; null when there is nothing to tell.
 * Who has just pressed Ctrl-C need not be told that the run was cancelled, but what it took.
 */
export function exitText(record: RunRecord, interrupted: boolean): string | null {
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
      return `cancelled${exit.actor === "" ? "" : ` by ${exit.actor}`}`;
    case "lost":
      return `the run was lost: ${exit.detail ?? "nobody saw how it ended"}`;
  }
}

/** The leader itself need not be the one it hit. */
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
  return emptiness === "unproven" ? "that nothing is left could not be proven" : null;
}

function durationText(ms: number | null): string {
  return ms === null ? "its limit" : formatDuration(ms);
}
