import { readFileSync } from "node:fs";
import { BadInput, RunNotFound } from "../../errors.js";
import type { AnswerOf } from "../../gateway/contract/contract.js";
import { sanitizeLine, sanitizeText } from "../../output/sanitize.js";
import { say } from "../complain.js";
import { exitCodes } from "../exit-code.js";
import { needGateway, type Connection } from "../gateway/connect.js";
import { pickRun, runPrefix } from "../runs/pick-run.js";
import { print } from "../runs/print.js";
import { statusOf } from "../runs/status.js";

const WHOLE_ID = /^run_[0-9a-z]{12}$/;

/** A run by the beginning of its id, among those that may be seen. */
export async function fullRunId({ client }: Connection, wanted: string): Promise<string> {
  const prefix = runPrefix(wanted);
  // What is whole is not looked for: the list holds only the newest.
  if (WHOLE_ID.test(prefix)) return prefix;
  if (prefix === "run_") throw new BadInput("run", "say which run: its id, or the beginning of it");
  const { runs } = await client.listRuns({ query: { all: "1", limit: 1_000 } });
  const found = runs.map(({ runId }) => runId).filter((runId) => runId.startsWith(prefix));
  const picked = pickRun(wanted, found);
  if (picked === null) throw new RunNotFound(wanted);
  return picked;
}

export interface PollRequest {
  readonly wanted: string;
  readonly waitMs: number;
  readonly stdout: number;
  readonly stderr: number;
  readonly json: boolean;
}

export async function pollProcess({ wanted, waitMs, stdout, stderr, json }: PollRequest): Promise<number> {
  const connection = await needGateway();
  const runId = await fullRunId(connection, wanted);
  const news = await connection.client.poll({ params: { runId }, query: { waitMs, stdout, stderr } });
  if (json) {
    print(`${JSON.stringify(news)}\n`);
    return 0;
  }
  for (const { stream, text, nextOffset } of news.output)
    if (text !== "")
      print(`${stream} up to ${nextOffset}:\n${sanitizeText(text)}${text.endsWith("\n") ? "" : "\n"}`);
  const { seems, because } = news.waitingForInput;
  print(
    `${runId}: ${statusOf(news.run)}, idle ${(news.idleMs / 1000).toFixed(1)} s${seems ? `, seems to wait for input (${because})` : ""}\n`,
  );
  return 0;
}

/** Bytes for its input: words of the command line, or what comes on stdin. */
export async function writeProcess(wanted: string, text: string | null, close: boolean): Promise<number> {
  const connection = await needGateway();
  const runId = await fullRunId(connection, wanted);
  const base64 = (text === null ? readFileSync(0) : Buffer.from(text)).toString("base64");
  const nothing = base64 === "" && close;
  await connection.client.write({ params: { runId }, body: nothing ? { close } : { base64, close } });
  return 0;
}

export async function sendKeys(wanted: string, keys: readonly string[], literal: boolean): Promise<number> {
  const connection = await needGateway();
  const runId = await fullRunId(connection, wanted);
  const words = literal ? keys.map((word) => `literal:${word}`) : [...keys];
  await connection.client.sendKeys({ params: { runId }, body: { keys: words } });
  return 0;
}

export async function pasteProcess(wanted: string, text: string | null, submit: boolean): Promise<number> {
  const connection = await needGateway();
  const runId = await fullRunId(connection, wanted);
  const body = { text: text ?? readFileSync(0, "utf8"), submit };
  const { bracketed } = await connection.client.paste({ params: { runId }, body });
  if (!bracketed && body.text.includes("\n"))
    say("the program has not asked for bracketed paste: each line was entered as if typed", "dim");
  return 0;
}

export async function resizeProcess(wanted: string, rows: number, cols: number): Promise<number> {
  const connection = await needGateway();
  await connection.client.resize({
    params: { runId: await fullRunId(connection, wanted) },
    body: { rows, cols },
  });
  return 0;
}

export async function killProcess(wanted: string, graceMs: number | null, json: boolean): Promise<number> {
  const connection = await needGateway();
  const runId = await fullRunId(connection, wanted);
  const answer = await connection.client.kill({
    params: { runId },
    body: graceMs === null ? {} : { graceMs },
  });
  if (json) print(`${JSON.stringify(answer)}\n`);
  else print(`${killLines(runId, answer).join("\n")}\n`);
  return answer.outcome === "gone" || answer.outcome === "ended-before" ? 0 : exitCodes.incomplete;
}

function killLines(runId: string, { outcome, survivors, run }: AnswerOf<"kill">): string[] {
  switch (outcome) {
    case "gone":
      return [`${runId} is gone`];
    case "ended-before":
      return [`${runId} had ended before: ${statusOf(run)}`];
    case "unknown":
      return [
        `${runId}: no anchor answers for it, and nothing was signalled; see holdfast runs cleanup --run ${runId}`,
      ];
    case "survivors":
      return [
        `${runId} has survivors:`,
        ...survivors.map(({ pid, kind, command }) => `  ${pid} ${sanitizeLine(command)} (${kind})`),
      ];
  }
}

export async function removeProcess(wanted: string): Promise<number> {
  const connection = await needGateway();
  const runId = await fullRunId(connection, wanted);
  await connection.client.remove({ params: { runId } });
  print(`${runId} is removed; its record stays until it is proven empty\n`);
  return 0;
}

export async function showScreen(wanted: string, json: boolean): Promise<number> {
  const connection = await needGateway();
  const runId = await fullRunId(connection, wanted);
  const screen = await connection.client.screen({ params: { runId } });
  if (json) print(`${JSON.stringify(screen)}\n`);
  else
    print(
      `${screen.rows
        .map((row) => sanitizeLine(row))
        .join("\n")
        .trimEnd()}\n`,
    );
  return 0;
}
