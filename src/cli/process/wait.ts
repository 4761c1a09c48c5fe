import type { RunRecord } from "../../model/run.js";
import type { ReadApi } from "../client/read-api.js";
import { openReadClient } from "../client/read-client.js";
import { resolveRunId } from "../client/resolve-run.js";
import { retryOverRestarts } from "../client/reconnect.js";
import { runExitCode } from "../print/exit-code.js";
import { pendingRecordText } from "../print/run-status.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";

/** The longest wait that one request may ask for. */
const POLL_MS = 30_000;

/** Waits for each run in turn, and prints its exit code, or with `json` its record. */
export async function waitForRuns(wanted: readonly string[], json: boolean): Promise<number> {
  await using reader = await openReadClient();
  const runIds: string[] = [];
  for (const each of wanted) runIds.push(await resolveRunId(reader, each));
  for (const runId of runIds) {
    const run = await waitForEnd(reader.client, runId);
    print(json ? toJson(run) : `${runExitCode(run)}\n`);
  }
  return 0;
}

async function waitForEnd({ poll }: ReadApi, runId: string): Promise<RunRecord> {
  let from = { stdout: 0, stderr: 0 };
  for (let reached = false; ; reached = true) {
    const query = { ...from, waitMs: POLL_MS, maxChars: 0 };
    const { run, output, recordPending } = await retryOverRestarts(
      () => poll({ params: { runId }, query }),
      reached,
    );
    if (run.state === "exited") {
      if (typeof recordPending === "string") notice(pendingRecordText(run, recordPending), "yellow");
      return run;
    }
    // A poll returns when there is new output: continue after it.
    for (const { stream, nextOffset } of output) from = { ...from, [stream]: nextOffset };
  }
}
