import type { GatewayClient } from "../../api/client.js";
import type { ResponseOf } from "../../api/contract.js";
import { BadInput, NotFound } from "../../errors.js";
import type { MessageDelivery, SessionMessage } from "../../model/session-message.js";
import { sanitizeLine, sanitizeText } from "../../text/sanitize.js";
import { formatTurn } from "../acp/list-show-watch.js";
import { connectOrStart } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import { sessionToken } from "../client/requester.js";
import { notice } from "../print/errors-and-notices.js";
import { print, printRequired, toRecordJson } from "../print/write-output.js";
import { paletteFor } from "../print/colours-and-progress.js";
import { statusText } from "../print/run-status.js";
import { type SessionFlags, sessionParams } from "./create-list-close.js";

export interface HistoryFlags extends SessionFlags {
  readonly limit: number;
  readonly before?: number;
}

type SessionHistory = ResponseOf<"sessionHistory">;

export async function showSessionHistory(
  wanted: string,
  { json = false, ...query }: HistoryFlags,
): Promise<number> {
  const params = sessionParams(wanted);
  await using reader = await openReadClient();
  const answer = await reader.client.sessionHistory({ params, query });
  const places = new Set([
    ...answer.messages.map(({ seq }) => seq),
    ...answer.turns.map(({ place }) => place),
  ]);
  const first = Math.min(...places);
  if (json) print(toRecordJson(answer));
  else if (places.size + answer.runs.length === 0)
    notice("the session has no messages, turns or runs", "dim");
  else {
    if (first > 1 && places.size === query.limit) notice(`there may be more: --before ${first}`, "dim");
    print(historyEntries(answer).join("\n"));
  }
  return 0;
}

/** In order of time. */
function historyEntries({ messages, turns, runs }: SessionHistory): string[] {
  const palette = paletteFor(1);
  const entries = [
    // A message that is the whole prompt of a turn is shown with the turn.
    ...messages
      .filter(({ deliver, turnId }) => deliver !== "wake" || !turns.some((turn) => turn.turnId === turnId))
      .map((message) => ({ at: message.at, text: messageText(message, deliveryText(message, turns)) })),
    ...turns.map((turn) => ({ at: turn.createdAt, text: formatTurn(turn, palette, turn.place) })),
    ...runs.map((run) => ({ at: run.createdAt, text: runText(run) })),
  ];
  return entries.toSorted((one, other) => one.at - other.at).map(({ text }) => text);
}

function messageText({ seq, role, actor, text, at }: SessionMessage, where: string): string {
  const head = `#${seq} ${role}, ${sanitizeLine(actor)}, ${new Date(at).toISOString()}`;
  return `${paletteFor(1).bold(`${head}${where}`)}\n${sanitizeText(text).trimEnd()}\n`;
}

function deliveryText(
  { deliver, turnId, inVain, deliveredAt }: SessionMessage,
  turns: SessionHistory["turns"],
): string {
  if (turnId === null) {
    if (deliveredAt !== null) return "";
    const before =
      inVain === 0 ? "" : `; delivered ${inVain === 1 ? "once" : `${inVain} times`}, not answered`;
    return deliver === "wake" ? " (waits)" : ` (waits for the next turn${before})`;
  }
  const turn = turns.find((each) => each.turnId === turnId);
  const name = turn === undefined ? turnId : `#${turn.place}`;
  if (deliveredAt !== null) return ` (delivered with ${name})`;
  return turn?.state === "ended"
    ? ` (not delivered: ${name} was ${turn.outcome})`
    : ` (being delivered with ${name})`;
}

function runText({ runId, state, command, createdAt, exit }: SessionHistory["runs"][number]): string {
  const how = exit === null ? state : `${exit.reason} ${statusText(exit) ?? ""}`.trimEnd();
  const head = `${runId} ${new Date(createdAt).toISOString()}, ${how}`;
  return `${paletteFor(1).bold(head)}\n$ ${sanitizeLine(command)}\n`;
}

interface ReadFlags extends SessionFlags {
  readonly limit: number;
}

interface InboxFlags extends ReadFlags {
  readonly take?: true;
  /** Messages that were read before. */
  readonly acknowledge?: readonly string[];
}

type Inbox = ResponseOf<"sessionInbox">;

export async function showInbox(
  wanted: string | undefined,
  { take, acknowledge = [], ...flags }: InboxFlags,
): Promise<number> {
  assertExclusiveFlags(take, acknowledge);
  if (wanted === undefined && sessionToken() === null)
    throw new BadInput("session", "name a session; only with a session's HOLDFAST_TOKEN it can be left out");
  if (acknowledge.length > 0) return acknowledgeMessages(wanted, acknowledge, flags);
  if (take === true) return takeMessages(wanted, flags);
  await using reader = await openReadClient();
  const { json = false, ...query } = flags;
  const inbox = await reader.client.sessionInbox({
    params: await namedOrOwnSession(wanted, reader.client),
    query,
  });
  print(inboxText(inbox, json));
  if (!json) noticeRest(inbox);
  return 0;
}

/** Prints first: a message that could not be printed is not acknowledged. */
async function takeMessages(
  wanted: string | undefined,
  { json = false, ...query }: ReadFlags,
): Promise<number> {
  const { client } = await connectOrStart();
  const params = await namedOrOwnSession(wanted, client);
  const inbox = await client.sessionInbox({ params, query });
  printRequired(inboxText(inbox, json), "nothing was acknowledged; all messages still wait");
  const ids = inbox.messages.map(({ id }) => id);
  const { acknowledged } =
    ids.length === 0 ? { acknowledged: [] } : await client.acknowledgeInbox({ params, body: { ids } });
  const others = ids.length - acknowledged.length;
  if (others > 0) notice(`${others} of them were acknowledged by another reader meanwhile`, "dim");
  if (!json) noticeRest(inbox);
  return 0;
}

async function acknowledgeMessages(
  wanted: string | undefined,
  ids: readonly string[],
  { json = false }: SessionFlags,
): Promise<number> {
  const none = ids.find((id) => !/^msg_[0-9a-z]{12}$/.test(id));
  if (none !== undefined) throw new NotFound(`message ${none.slice(0, 200)}; nothing was acknowledged`);
  const { client } = await connectOrStart();
  const answer = await client.acknowledgeInbox({
    params: await namedOrOwnSession(wanted, client),
    body: { ids: [...ids] },
  });
  const { acknowledged } = answer;
  print(json ? toRecordJson(answer) : acknowledged.map((id) => `${id} is acknowledged\n`).join(""));
  for (const id of ids)
    if (!acknowledged.includes(id)) notice(`${id} does not wait for this session, or no longer`, "dim");
  return 0;
}

function assertExclusiveFlags(take: true | undefined, acknowledge: readonly string[]): void {
  if (take === true && acknowledge.length > 0)
    throw new BadInput("take", "--take and --acknowledge exclude each other; nothing was done");
}

function inboxText({ session, messages, more }: Inbox, json: boolean): string {
  return json
    ? toRecordJson({ session, messages, more })
    : messages.map((message) => messageText(message, ` (${message.id})`)).join("\n");
}

function noticeRest({ messages, more }: Inbox): void {
  if (messages.length === 0) notice("no messages wait for the session", "dim");
  else if (more) notice("there are more messages", "dim");
}

/** Without a name, the session of the token. */
async function namedOrOwnSession(
  wanted: string | undefined,
  client: Pick<GatewayClient, "listSessions">,
): Promise<{ readonly id: string }> {
  if (wanted !== undefined) return sessionParams(wanted);
  const { sessions } = await client.listSessions({ query: { visibility: "self", limit: 1 } });
  return sessionParams(sessions[0]?.id ?? "");
}

interface SendMessageFlags extends SessionFlags {
  readonly deliver?: MessageDelivery;
}

export async function sendSessionMessage(
  wanted: string,
  text: string,
  { json = false, ...body }: SendMessageFlags,
): Promise<number> {
  const params = sessionParams(wanted);
  const { client } = await connectOrStart();
  const { message } = await client.sendMessage({ params, body: { text, ...body } });
  if (json) print(toRecordJson(message));
  else print(`${message.id} waits for ${message.sessionId}\n`);
  return 0;
}
