import type { RunRecord } from "../../model/run.js";
import { sanitizeLine, sanitizeText } from "../../text/sanitize.js";
import type { ReadApi } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import { retryOverRestarts } from "../client/reconnect.js";
import { resolveRunId } from "../client/resolve-run.js";
import { runExitCode } from "../print/exit-code.js";
import { pendingRecordText, runStatusText } from "../print/run-status.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";

/** The options of `process poll`. */
export interface PollRequest {
  readonly wait: number;
  readonly stdout: number;
  readonly stderr: number;
  readonly raw?: true;
  readonly json?: true;
}

export async function pollRunCommand(wanted: string, request: PollRequest): Promise<number> {
  const { wait, stdout, stderr, raw, json } = request;
  const waitMs = Math.min(wait, POLL_MS);
  await using reader = await openReadClient();
  const runId = await resolveRunId(reader, wanted);
  const query = { waitMs, stdout, stderr, ...(raw === true ? { raw: "1" as const } : {}) };
  const news = await reader.client.poll({ params: { runId }, query });
  if (json === true) {
    print(toJson(news));
    return 0;
  }
  for (const { stream, text, base64, nextOffset } of news.output) {
    if (text === "") continue;
    const shown = base64 === undefined ? sanitizeText(text) : Buffer.from(base64, "base64").toString();
    print(`${stream} up to ${nextOffset}:\n${shown}${shown.endsWith("\n") ? "" : "\n"}`);
  }
  const { seems, because } = news.waitingForInput;
  if (typeof news.recordPending === "string")
    notice(pendingRecordText(news.run, news.recordPending), "yellow");
  print(
    `${runId}: ${runStatusText(news.run)}, idle ${(news.idleMs / 1000).toFixed(1)} s${seems ? `, seems to wait for input (${because})` : ""}\n`,
  );
  return 0;
}

export async function showScreen(wanted: string, json: boolean): Promise<number> {
  await using reader = await openReadClient();
  const runId = await resolveRunId(reader, wanted);
  const screen = await reader.client.screen({ params: { runId } });
  if (json) print(toJson(screen));
  else
    print(
      `${screen.rows
        .map((row) => sanitizeLine(row))
        .join("\n")
        .trimEnd()}\n`,
    );
  return 0;
}

/** The longest wait of one request. */
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
