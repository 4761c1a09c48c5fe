import { defaults } from "../defaults.js";
import type { RunPolicy } from "../model/run.js";

/** Of a run of which nobody has said how it is to be treated, but for what becomes of its escapes and of an orphan. */
export function defaultPolicy(choices: Pick<RunPolicy, "onEscape" | "onOrphan">): RunPolicy {
  const { graceMs, settleMs, drainMs, killReportMs, ownerLossMs } = defaults;
  return { graceMs, settleMs, drainMs, killReportMs, ownerLossMs, callerBound: false, ...choices };
}
