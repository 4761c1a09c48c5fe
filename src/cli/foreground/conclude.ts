import { leftText } from "../../anchor/seen.js";
import type { RunRecord, RunStateName } from "../../store/run-record.js";
import type { Survivor } from "../../anchor/host.js";
import { exitCode, exitCodes } from "../exit-code.js";
import { interruptCode, type Interrupt } from "./interrupts.js";
import type { OutletFailed } from "./outlet.js";
import { verdict } from "./verdict.js";

/** Everything that decides what `holdfast run` says and exits with. */
export interface Ending {
  /** As it stands when we leave: `exited`, unless some processes cannot be killed or the user would not wait. */
  readonly record: RunRecord;
  /** What was seen of the run itself, which may be ahead of its record. */
  readonly state: RunStateName;
  readonly survivors: readonly Survivor[];
  readonly interrupt: Interrupt | null;
  readonly outletFailure: OutletFailed | null;
}

export interface Conclusion {
  readonly code: number;
  /** One line for stderr. */
  readonly message: string | null;
}

export function conclude(ending: Ending): Conclusion {
  const { record, interrupt, outletFailure } = ending;
  if (record.state !== "exited") {
    const code = interrupt === null ? exitCodes.failure : interruptCode(interrupt);
    return { code, message: leftBehind(ending) };
  }
  if (outletFailure !== null) return unwritten(outletFailure, record);
  const interrupted = interrupt !== null && record.exit?.reason === "manual-cancel";
  return {
    code: interrupted ? interruptCode(interrupt) : exitCode(record),
    message: verdict(record, interrupted),
  };
}

/** What it wrote is not all where it should be. That is a failure, unless the command has one of its own to tell. */
function unwritten({ gone, message }: OutletFailed, record: RunRecord): Conclusion {
  const cancelled = record.exit?.reason === "manual-cancel";
  const own = cancelled ? 0 : exitCode(record);
  // `holdfast run -- yes | head -1`: the reader has all it wanted. That is nothing to talk about.
  if (gone) return { code: own || exitCodes.readerGone, message: own === 0 ? null : verdict(record, false) };
  const how = cancelled ? "the command was cancelled" : "the command has ended, but its output is incomplete";
  return { code: own || exitCodes.failure, message: `${message}; ${how}` };
}

function leftBehind({ record, state, survivors, interrupt }: Ending): string {
  const { runId, service } = record;
  if (service !== null) return `run ${runId} is a service now, and goes on`;
  if (state === "exited") return `run ${runId} is gone; the next gateway records its end`;
  if (survivors.length === 0) {
    const told = state === "exiting" || record.state === "exiting";
    // Out of sight, no gateway holds it: the anchor ends it for that.
    if (told || interrupt === null) return `left run ${runId} to its anchor, which goes on terminating it`;
    return `left run ${runId}, which may go on: neither its gateway nor its anchor has answered. \`holdfast runs cancel ${runId}\` tries again`;
  }
  const named = survivors.map(leftText).join(", ");
  return `could not kill ${named}; the anchor of run ${runId} stays and goes on trying`;
}
