import { BadInput, RunNotFound } from "../../errors.js";
import type { RunRecord } from "../../store/run-record.js";
import type { ReadStore } from "../../store/sqlite/open-for-reading.js";

/** By id, or by a beginning that only one run has. The `run_` in front may be left out. */
export async function findRecord(store: ReadStore, wanted: string): Promise<RunRecord> {
  const prefix = wanted.startsWith("run_") ? wanted : `run_${wanted}`;
  const candidates = 5;
  const found = wanted === "" ? [] : await store.findRuns(prefix, candidates);
  const exact = found.find(({ runId }) => runId === prefix);
  const record = exact ?? found[0];
  if (record === undefined) throw new RunNotFound(wanted);
  if (exact === undefined && found.length > 1) {
    const names = found.map(({ runId }) => runId).join(", ");
    const more = found.length === candidates ? ", …" : "";
    throw new BadInput("run", `${JSON.stringify(wanted)} is the beginning of several runs: ${names}${more}`);
  }
  return record;
}
