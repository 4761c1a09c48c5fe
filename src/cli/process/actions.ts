import { readFileSync } from "node:fs";
import { describeSurvivor } from "../../anchor/inspect/liveness.js";
import type { GatewayClient } from "../../api/client.js";
import type { ResponseOf } from "../../api/contract.js";
import { BadInput, RunNotFound, StoreUnreadable } from "../../errors.js";
import { sanitizeLine, sanitizeText } from "../../text/sanitize.js";
import { connectOrStart, type GatewayConnection } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import { pickRunId, toRunIdPrefix } from "../client/resolve-run.js";
import { formatDuration } from "../options/units.js";
import { exitCodes } from "../print/exit-code.js";
import { pendingRecordText, runStatusText } from "../print/run-status.js";
import { notice } from "../print/stderr.js";
import { print, toJson } from "../print/stdout.js";
import { type DirectStop, printRemark, StopCoordinator } from "../stop/stop-coordinator.js";
import type { StopOutcome } from "../stop/stop-run.js";

const FULL_RUN_ID = /^run_[0-9a-z]{12}$/;

/** A run by the beginning of its id, among those that may be seen. */
export async function resolveRunId(
  { client }: { readonly client: Pick<GatewayClient, "listRuns"> },
  wanted: string,
  signal?: AbortSignal,
): Promise<string> {
  const prefix = toRunIdPrefix(wanted);
  // What is whole is not looked for: the list holds only the newest.
  if (FULL_RUN_ID.test(prefix)) return prefix;
  if (prefix === "run_") throw new BadInput("run", "say which run: its id, or the beginning of it");
  const listed = await client.listRuns({ query: { all: "1", hidden: "1", limit: 1_000 } }, signal);
  const { runs, storeAway } = listed;
  const found = runs.map(({ runId }) => runId).filter((runId) => runId.startsWith(prefix));
  const picked = pickRunId(wanted, found);
  if (picked !== null) return picked;
  if (typeof storeAway === "string") throw new StoreUnreadable(wanted, new Error(storeAway));
  throw new RunNotFound(wanted);
}

export interface PollRequest {
  readonly wanted: string;
  readonly waitMs: number;
  readonly stdout: number;
  readonly stderr: number;
  readonly raw: boolean;
  readonly json: boolean;
}

export async function pollProcess(request: PollRequest): Promise<number> {
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

interface RunControl {
  readonly runId: string;
  readonly client: GatewayConnection["client"];
  /** Nothing but with `--json`: then what was done. */
  readonly done: (what: object) => number;
}

async function connectToRun(wanted: string, json: boolean): Promise<RunControl> {
  const connection = await connectOrStart();
  const runId = await resolveRunId(connection, wanted);
  const done = (what: object): number => {
    if (json) print(toJson({ runId, ...what }));
    return 0;
  };
  return { runId, client: connection.client, done };
}

/** Bytes for its input: words of the command line, or what comes on stdin. */
export async function writeProcess(
  wanted: string,
  text: string | null,
  close: boolean,
  json: boolean,
): Promise<number> {
  const { runId, client, done } = await connectToRun(wanted, json);
  const bytes = text === null ? readFileSync(0) : Buffer.from(text);
  const body = bytes.length === 0 && close ? { close } : { base64: bytes.toString("base64"), close };
  await client.write({ params: { runId }, body });
  return done({ bytes: bytes.length, closed: close });
}

export async function sendKeysCommand(
  wanted: string,
  keys: readonly string[],
  literal: boolean,
  json: boolean,
): Promise<number> {
  const { runId, client, done } = await connectToRun(wanted, json);
  const words = literal ? keys.map((word) => `literal:${word}`) : [...keys];
  await client.sendKeys({ params: { runId }, body: { keys: words } });
  return done({ keys: words });
}

export async function pasteProcess(
  wanted: string,
  text: string | null,
  submit: boolean,
  json: boolean,
): Promise<number> {
  const { runId, client, done } = await connectToRun(wanted, json);
  const body = { text: text ?? readFileSync(0, "utf8"), submit };
  const { bracketed } = await client.paste({ params: { runId }, body });
  if (!bracketed && body.text.includes("\n"))
    notice("the program has not asked for bracketed paste: each line was entered as if typed", "dim");
  return done({ characters: body.text.length, bracketed, submitted: submit });
}

export async function resizeProcess(
  wanted: string,
  rows: number,
  cols: number,
  json: boolean,
): Promise<number> {
  const { runId, client, done } = await connectToRun(wanted, json);
  await client.resize({ params: { runId }, body: { rows, cols } });
  return done({ rows, cols });
}

export async function stopProcess(wanted: string, graceMs: number | null, json: boolean): Promise<number> {
  const { runStopOperation, stopOutcome } = await import("../stop/stop-run.js");
  const stopped = await new StopCoordinator(graceMs).stop(runStopOperation(wanted, graceMs));
  const { runId, outcome } = stopOutcome(stopped);
  if (stopped.through === "gateway") {
    if (json) print(toJson(stopped.answer));
    else print(`${stopLines(runId, stopped.answer).join("\n")}\n`);
    return stopExitCode(outcome.outcome);
  }
  if (json) print(toJson(directStopJson(stopped.runs[0])));
  else await printOutcome(runId, outcome);
  printRemark(stopped.remark);
  return stopExitCode(outcome.outcome);
}

/** As a gateway answers, with what is known without one: `run` is null when its record could not be read. */
function directStopJson(stop: DirectStop | undefined): object {
  if (stop === undefined) return {};
  const { runId, record, outcome } = stop;
  return { runId, survivors: [], run: record, command: null, through: "direct", ...outcome };
}

async function printOutcome(runId: string, outcome: StopOutcome): Promise<void> {
  const { printStopOutcome } = await import("../stop/stop-run.js");
  printStopOutcome(runId, outcome);
}

/** The exit code that goes with what became of a stop. */
export function stopExitCode(outcome: ResponseOf<"kill">["outcome"] | "left-alone"): number {
  if (outcome === "handed-over") return exitCodes.handedOver;
  return outcome === "gone" || outcome === "ended-before" ? 0 : exitCodes.incomplete;
}

/** Who was to stop a run of another host, and that nobody has said that it is done. */
export function handedOverText({ command }: Pick<ResponseOf<"kill">, "command">): string {
  if (command === null) return "";
  const { hostName, hostId, instanceId, lastHeardAt, accepted, id } = command;
  const heard =
    lastHeardAt === null ? "never heard of" : `last heard of ${formatDuration(Date.now() - lastHeardAt)} ago`;
  const so = accepted ? "taken up there, not yet done" : "not yet acknowledged";
  return `handed over to host ${hostName || hostId} (gateway ${instanceId}, ${heard}): ${so}; it is carried out when that host is there (${id})`;
}

function stopLines(runId: string, answer: ResponseOf<"kill">): string[] {
  const { outcome, survivors, run } = answer;
  switch (outcome) {
    case "handed-over":
      return [`${runId}: ${sanitizeLine(handedOverText(answer))}`];
    case "gone":
      return [`${runId} is gone`];
    case "ended-before":
      return [`${runId} had ended before: ${runStatusText(run)}`];
    case "unknown":
      return [
        `${runId}: no anchor answers for it, and nothing was signalled; see holdfast runs cleanup --run ${runId}`,
      ];
    case "survivors":
      return [
        `${runId} has survivors:`,
        ...survivors.map((each) => `  ${sanitizeLine(describeSurvivor(each))}`),
      ];
  }
}

/** Hide a run and stop it; waits until it is gone. Only a gateway can hide it: without one it is stopped. */
export async function removeProcess(wanted: string, json: boolean): Promise<number> {
  const { runStopOperation, stopOutcome, printStopOutcome } = await import("../stop/stop-run.js");
  const kill = runStopOperation(wanted, null);
  let removed = false;
  let stopping = true;
  const stopped = await new StopCoordinator(null).stop({
    ...kill,
    ask: async (connection, signal) => {
      const runId = await resolveRunId(connection, wanted, signal);
      ({ stopping } = await connection.client.remove({ params: { runId } }, signal));
      removed = true;
      const answer = await kill.ask(connection, signal);
      // It may have ended between the two requests: of the first one.
      return stopping && answer.outcome === "ended-before" ? { ...answer, outcome: "gone" as const } : answer;
    },
  });
  const { runId, outcome } = stopOutcome(stopped);
  if (json) print(toJson({ runId, removed, stopping, through: stopped.through, ...outcome }));
  else {
    if (removed) print(`${runId} is removed\n`);
    if (stopping) printStopOutcome(runId, outcome);
  }
  if (stopped.through === "direct") printRemark(stopped.remark);
  if (!removed)
    notice(
      `${runId} is not hidden: only a gateway can hide it; repeat the command when one answers`,
      "yellow",
    );
  return stopExitCode(outcome.outcome);
}

export async function clearProcesses(json: boolean): Promise<number> {
  const { client } = await connectOrStart();
  const { cleared } = await client.clear();
  if (json) print(toJson({ cleared }));
  else print(`${cleared} ended ${cleared === 1 ? "run is" : "runs are"} hidden; --all shows them\n`);
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
