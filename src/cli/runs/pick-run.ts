import { BadInput } from "../../errors.js";

/** What the ids of the runs that a person may mean begin with: the `run_` in front may be left out. */
export function toRunIdPrefix(wanted: string): string {
  return wanted.startsWith("run_") ? wanted : `run_${wanted}`;
}

/** As many as are named when a beginning is not enough. */
const NAMED_RUNS = 5;
/** Enough to know whether there are more. */
export const RUN_CANDIDATES = NAMED_RUNS + 1;

/** Of those that begin so, the one that was meant: the whole id, or the only one. Null: there is none. */
export function pickRunId(wanted: string, ids: readonly string[]): string | null {
  if (ids.includes(toRunIdPrefix(wanted))) return toRunIdPrefix(wanted);
  if (ids.length < 2) return ids[0] ?? null;
  const named = ids.toSorted().slice(0, NAMED_RUNS).join(", ");
  const more = ids.length > NAMED_RUNS ? ", …" : "";
  throw new BadInput("run", `${JSON.stringify(wanted)} is the beginning of several runs: ${named}${more}`);
}
