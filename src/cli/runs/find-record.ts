import { RunNotFound } from "../../errors.js";
import type { RunRecord } from "../../model/run.js";
import type { RunView } from "../client/session-run-view.js";
import { pickRunId, toRunIdPrefix, RUN_CANDIDATES } from "./pick-run.js";

/** By id, or by a beginning that only one run has. */
export async function resolveRunRecord(store: RunView, wanted: string): Promise<RunRecord> {
  const found = wanted === "" ? [] : await store.findRuns(toRunIdPrefix(wanted), RUN_CANDIDATES);
  const runId = pickRunId(
    wanted,
    found.map((record) => record.runId),
  );
  const record = found.find((each) => each.runId === runId);
  if (record === undefined) throw new RunNotFound(wanted);
  return record;
}
