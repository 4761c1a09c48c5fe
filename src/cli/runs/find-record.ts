import { RunNotFound } from "../../errors.js";
import type { RunRecord } from "../../store/run-record.js";
import type { RunView } from "../gateway/session-view.js";
import { pickRun, runPrefix, RUNS_ASKED_FOR } from "./pick-run.js";

/** By id, or by a beginning that only one run has. */
export async function findRecord(store: RunView, wanted: string): Promise<RunRecord> {
  const found = wanted === "" ? [] : await store.findRuns(runPrefix(wanted), RUNS_ASKED_FOR);
  const runId = pickRun(
    wanted,
    found.map((record) => record.runId),
  );
  const record = found.find((each) => each.runId === runId);
  if (record === undefined) throw new RunNotFound(wanted);
  return record;
}
