import { sanitizeLine, sanitizeText } from "../../text/sanitize.js";
import { openReadClient } from "../client/read-client.js";
import { resolveRunId } from "../client/resolve-run.js";
import { pendingRecordText, runStatusText } from "../print/run-status.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";

export interface PollRequest {
  readonly wanted: string;
  readonly waitMs: number;
  readonly stdout: number;
  readonly stderr: number;
  readonly raw: boolean;
  readonly json: boolean;
}

export async function pollRunCommand(request: PollRequest): Promise<number> {
  const { wanted, waitMs, stdout, stderr, raw, json } = request;
  await using reader = await openReadClient();
  const runId = await resolveRunId(reader, wanted);
  const query = { waitMs, stdout, stderr, ...(raw ? { raw: "1" as const } : {}) };
  const news = await reader.client.poll({ params: { runId }, query });
  if (json) {
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
