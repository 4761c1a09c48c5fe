import type { GatewayClient } from "../../api/client.js";
import type { ResponseOf } from "../../api/contract.js";
import { NotFound } from "../../errors.js";
import { sanitizeLine, sanitizeText } from "../../text/sanitize.js";
import type { GatewayConnection, ReadApi } from "../client/connect.js";
import { openReadClient, tryConnectForReading } from "../client/read-client.js";
import { retryUntilAnswered } from "../client/reconnect.js";
import { type AcpSessionSummary, resolveAcpSession } from "../client/resolve-acp-session.js";
import type { JsonFlag } from "../options/command-definition.js";
import { formatElapsed } from "../../text/format-units.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { printTable, terminalWidth } from "../print/table.js";
import { type Palette, paletteFor } from "../print/colours-and-progress.js";
import { dieBySignal } from "../run/interrupt-signals.js";
import { type DisplayField, fieldLines } from "../print/fields.js";
import { PermissionPrompter } from "./permissions/prompter.js";
import { canAnswerPrompts } from "./prompt.js";
import { ruleText } from "./permissions/rule-pattern.js";
import { agentFields, settingFields } from "./set-and-show-settings.js";
import { closeText, leaseText } from "./view/close-result.js";
import {
  type AcpView,
  auditNotice,
  omittedTextNotice,
  openPermissionText,
  type OutputFormat,
  type ShownTurn,
  toolLine,
  toOneLine,
  type TurnChange,
  type WatchedUpdate,
} from "./view/notice-texts.js";
import { createView } from "./view/create-view.js";
import { AcpUpdateStream } from "./view/update-stream.js";

interface ListFlags extends JsonFlag {
  readonly all?: true;
  readonly limit: number;
}

interface HistoryFlags extends ListFlags {
  readonly turn?: string;
}

type AcpSessionDetails = ResponseOf<"acpShow">;

export async function showAcpSession(wanted: string, { json = false }: JsonFlag): Promise<number> {
  await using reader = await openReadClient();
  const { sessionId } = await resolveAcpSession(reader.client, wanted);
  const shown = await reader.client.acpShow({ params: { id: sessionId } });
  print(json ? toJson(shown, 2) : sessionText(shown, Date.now()));
  return 0;
}

/** Lines of an agent's stderr that are shown. */
const STDERR_LINES = 5;

function sessionText(
  { session, turns, permissions, tree, stderr, client, agentState }: AcpSessionDetails,
  now: number,
): string {
  const { key, sessionId, state, problem, agent, command, cwd, mode, runId, rules, reap } = session;
  return `${fieldLines([
    ["session", `${key} (${sessionId})`],
    ["state", problem === null ? state : `${state}: ${problem.message}`],
    ["closed", closeText(session)],
    ["agent", agent === null ? command : `${agent}: ${command}`],
    ["directory", cwd],
    ["mode", mode],
    ...settingFields(agentState),
    ["rules", rules.map(ruleText).join(", ") || "none: everything is refused"],
    ["reaps", REAP_TEXT[reap]],
    ["offers", offerText(client, cwd)],
    ...agentFields(agentState),
    ...session.mcpServers.map((server): DisplayField => ["MCP server", mcpServerText(server)]),
    ["run", runId ?? "-"],
    ["lease", leaseText(session)],
    ["processes", tree.processes.length === 0 ? tree.why : `${tree.processes.length}; ${tree.why}`],
    ...tree.processes.map(({ pid, command: own }): DisplayField => ["", `${pid} ${own}`]),
    ...lastLines(stderr).map((line): DisplayField => ["stderr", line]),
    ...permissions.map((each): DisplayField => ["asks", openPermissionText(each, now)]),
    ...turns.map((turn): DisplayField => ["turn", turnSummary(turn, now)]),
  ]).join("\n")}\n`;
}

function lastLines(stderr: string): string[] {
  return stderr
    .split("\n")
    .filter((line) => line.trim() !== "")
    .slice(-STDERR_LINES);
}

function offerText({ files, roots, terminals }: AcpSessionDetails["client"], cwd: string): string {
  const offered = [
    ...(files === "none" ? [] : [`to ${FILE_ACCESS_TEXT[files]} files in ${[cwd, ...roots].join(", ")}`]),
    ...(terminals ? ["terminals"] : []),
  ];
  return offered.join("; ") || "nothing";
}

function mcpServerText({
  name,
  transport,
  target,
  given,
}: AcpSessionDetails["session"]["mcpServers"][number]): string {
  const values = given.length === 0 ? "" : ` (with ${given.join(", ")})`;
  return `${name}: ${transport === "stdio" ? target : `${transport} ${target}`}${values}`;
}

const FILE_ACCESS_TEXT = { read: "read", "read-write": "read and write" } as const;

const REAP_TEXT = {
  asked: "processes that a turn leaves running, on request",
  cancel: "processes that a cancelled turn leaves running",
  always: "processes that any turn leaves running",
} as const;

function turnSummary(
  { turnId, ordinal, state, outcome, prompt, startedAt, endedAt, createdAt, stalledAt }: ShownTurn,
  now: number,
): string {
  const since = formatElapsed(startedAt ?? createdAt, endedAt ?? now);
  const how = state === "ended" ? `${outcome} after ${since}` : `${state} for ${since}`;
  const silence = stalledAt === null ? "" : `, stalled: no output for ${formatElapsed(stalledAt, now)}`;
  return `${ordinal}, ${how}${silence}: ${toOneLine(prompt).slice(0, 100)} (${turnId})`;
}

export async function printAcpSessions({ all, limit, json = false }: ListFlags): Promise<number> {
  await using reader = await openReadClient();
  const { sessions } = await reader.client.acpList({
    query: { limit, ...(all === true ? { all: "1" } : {}) },
  });
  if (json) print(toJson(sessions, 2));
  else if (sessions.length === 0) notice("there are no ACP sessions", "dim");
  else printTable(COLUMNS, sessions.map(sessionRow));
  return 0;
}

const COLUMNS = [
  "NAME",
  "SESSION",
  "STATE",
  { name: "AGENT", optional: 3 },
  { name: "LEASE", optional: 1 },
  { name: "MODE", optional: 1 },
  { name: "CREATED", optional: 2 },
  "DIRECTORY",
];

function sessionRow(session: AcpSessionSummary): string[] {
  const { sessionId, key, state, agent, leaseState, mode, createdAt, cwd } = session;
  return [
    key,
    sessionId,
    state,
    agent ?? "-",
    leaseState ?? "-",
    mode,
    `${formatElapsed(createdAt)} ago`,
    cwd,
  ];
}

/** Width of lines if stdout is no terminal. */
const NON_TERMINAL_WIDTH = 200;

/** Prints the prompts and answers of a session, oldest first. */
export async function showAcpHistory(
  wanted: string,
  { limit, turn, json = false }: HistoryFlags,
): Promise<number> {
  await using reader = await openReadClient();
  const { sessionId } = await resolveAcpSession(reader.client, wanted);
  const { turns } = await reader.client.acpHistory({
    params: { id: sessionId },
    query: turn === undefined ? { limit } : { turn },
  });
  if (turn !== undefined && turns.length === 0) throw new NotFound(`turn ${turn} of session ${wanted}`);
  const ordered = turns.toReversed();
  if (json) print(toJson(ordered, 2));
  else if (ordered.length === 0) notice("the session has no turns", "dim");
  else print(ordered.map((each) => formatTurn(each, paletteFor(1), each.ordinal)).join("\n"));
  return 0;
}

/** `number`: the number of the turn in its session. */
export function formatTurn(turn: ShownTurn, palette: Palette, number: number): string {
  const { createdAt, askedBy, prompt, text, toolCalls, problem, audit } = turn;
  const head = `#${number} ${new Date(createdAt).toISOString().slice(0, 19)}Z ${sanitizeLine(askedBy)}, ${turnOutcomeText(turn)}`;
  const quoted = sanitizeText(prompt).trimEnd().replaceAll(/^/gm, "> ");
  const left = audit === null ? null : auditNotice(audit);
  const omitted = omittedTextNotice(turn);
  const parts = [
    palette.dim(head),
    palette.bold(quoted),
    ...turn.attachments.map(({ type, name }) => palette.dim(`+ ${sanitizeLine(`${type} ${name}`)}`)),
    ...toolCalls.map((call) => toolLine(call, terminalWidth() ?? NON_TERMINAL_WIDTH, palette)),
    ...(omitted === null ? [] : [palette.yellow(`! ${omitted[0]}`)]),
    ...(text === "" ? [] : [sanitizeText(text).trimEnd()]),
    ...(problem === null ? [] : [palette.red(`! ${sanitizeLine(problem.message)}`)]),
    ...(left === null ? [] : [palette.yellow(`! ${sanitizeLine(left[0])}`)]),
  ];
  return `${parts.join("\n")}\n`;
}

function turnOutcomeText({ state, outcome, stopReason, startedAt, endedAt, contextLost }: ShownTurn): string {
  if (state !== "ended" || endedAt === null) return state;
  const took = startedAt === null ? "" : ` after ${formatElapsed(startedAt, endedAt)}`;
  const why =
    stopReason === null || stopReason === "end_turn" || stopReason === outcome ? "" : ` (${stopReason})`;
  return sanitizeLine(`${outcome ?? "ended"}${why}${took}${contextLost ? ", context lost" : ""}`);
}

interface WatchFlags extends JsonFlag {
  readonly format?: OutputFormat;
  readonly thoughts?: true;
  /** Only new updates. */
  readonly new?: true;
}

interface WatchRequest {
  readonly session: string;
  readonly format: OutputFormat;
  /** The number of the last known update; null: only new updates. */
  readonly after: number | null;
}

/** Shows a session until it is closed. Without a gateway: what is recorded. */
export async function watchSession(session: string, flags: WatchFlags): Promise<number> {
  const format = flags.json === true ? "json" : (flags.format ?? "text");
  const request = { session, format, after: flags.new === true ? null : 0 };
  const view = createView(format, { thoughts: flags.thoughts === true, watching: true });
  const connection = await tryConnectForReading();
  if (connection === null) await showStored(request, view);
  else await watchLive(connection, request, view);
  view.flush();
  return 0;
}

async function watchLive(
  connection: GatewayConnection,
  { session, format, after }: WatchRequest,
  view: AcpView,
): Promise<void> {
  const { sessionId, seq } = await resolveAcpSession(connection.client, session);
  const noticeInView = (message: string): void => view.notice([message, "dim"]);
  const updates = new AcpUpdateStream({ connection, sessionId, after: after ?? seq, notice: noticeInView });
  using prompter = new PermissionPrompter({
    view,
    interactive: format !== "json" && canAnswerPrompts(),
    client: () => updates.client,
    // A watcher has nothing to cancel.
    onInterrupt: () => dieBySignal("SIGINT"),
  });
  const all = async (): Promise<void> => {
    for await (const update of updates) {
      prompter.handleUpdate(update);
      await retryUntilAnswered(updates.connection, (client) => showTurnEnd(client, sessionId, update, view));
    }
  };
  await Promise.race([all(), prompter.failure]);
}

async function showStored({ session, after }: WatchRequest, view: AcpView): Promise<void> {
  await using reader = await openReadClient();
  const { sessionId, seq } = await resolveAcpSession(reader.client, session);
  for await (const update of storedUpdates(reader.client, sessionId, after ?? seq)) {
    view.show(update);
    await showTurnEnd(reader.client, sessionId, update, view);
  }
}

async function* storedUpdates(
  client: ReadApi,
  sessionId: string,
  after: number,
): AsyncGenerator<WatchedUpdate, void, undefined> {
  for (let last = after; ;) {
    const page = await client.acpWatch({ params: { id: sessionId }, query: { after: last } });
    if (page.updates.length === 0) return;
    yield* page.updates;
    last = page.after;
  }
}

async function showTurnEnd(
  client: Pick<GatewayClient, "acpHistory">,
  sessionId: string,
  { type, data }: WatchedUpdate,
  view: AcpView,
): Promise<void> {
  const { state, turnId } = data as TurnChange;
  if (type !== "turn" || state !== "ended") return;
  const { turns } = await client.acpHistory({ params: { id: sessionId }, query: { turn: turnId } });
  for (const turn of turns) view.turnEnded(turn);
}
