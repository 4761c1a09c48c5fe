import { NotFound } from "../../errors.js";
import { sanitizeLine, sanitizeText } from "../../output/sanitize.js";
import type { SessionMessage } from "../../store/message-record.js";
import type { SessionRow, Visibility } from "../../store/session-record.js";
import { say } from "../complain.js";
import { formatDuration } from "../duration.js";
import { needGateway } from "../gateway/connect.js";
import { openLook } from "../gateway/look.js";
import { toJson } from "../json.js";
import { paletteFor } from "../palette.js";
import { print } from "../runs/print.js";

export interface TalkFlags {
  readonly visibility?: Visibility;
  readonly json?: true;
}

export interface HistoryFlags extends TalkFlags {
  readonly limit: number;
  readonly before?: number;
}

export async function showSession(wanted: string, { json, ...query }: TalkFlags): Promise<number> {
  const params = named(wanted);
  await using look = await openLook();
  const status = await look.client.sessionStatus({ params, query });
  if (json === true) {
    print(toJson(status));
    return 0;
  }
  const { session, state, runs, messages } = status;
  const now = Date.now();
  const facts: [string, string][] = [
    ["session", `${session.id} (${session.key})`],
    ["state", state],
    ["agent", session.agentId ?? "-"],
    ["backend", session.backend ?? "-"],
    ["sees", session.sandboxed ? `${session.visibility}, sandboxed` : session.visibility],
    ["belongs to", belongsTo(session)],
    ["messages", `${messages.total}, ${messages.pending} waiting${since(messages.lastAt, now)}`],
    ...runs.map(({ runId, command }): [string, string] => ["run", `${runId} ${command}`]),
  ];
  const width = Math.max(...facts.map(([name]) => name.length));
  print(facts.map(([name, value]) => `${name.padEnd(width)}  ${sanitizeLine(value)}\n`).join(""));
  return 0;
}

function belongsTo({ parentSessionKey, ownerSessionKey, spawnedBy }: SessionRow): string {
  return parentSessionKey ?? ownerSessionKey ?? spawnedBy ?? "-";
}

function since(at: number | null, now: number): string {
  return at === null ? "" : `, the last ${formatDuration(Math.max(0, now - at))} ago`;
}

export async function showHistory(wanted: string, { json, ...query }: HistoryFlags): Promise<number> {
  const params = named(wanted);
  await using look = await openLook();
  const answer = await look.client.sessionHistory({ params, query });
  const [first] = answer.messages;
  if (json === true) print(toJson(answer));
  else if (first === undefined) say("nothing was said in it", "dim");
  else {
    if (first.seq > 1 && answer.messages.length === query.limit)
      say(`there may be more: --before ${first.seq}`, "dim");
    print(answer.messages.map(messageText).join("\n"));
  }
  return 0;
}

function messageText({ seq, role, actor, text, at, deliveredAt }: SessionMessage): string {
  const head = `#${seq} ${role}, ${sanitizeLine(actor)}, ${new Date(at).toISOString()}`;
  const waits = deliveredAt === null ? " (waits)" : "";
  return `${paletteFor(1).bold(`${head}${waits}`)}\n${sanitizeText(text).trimEnd()}\n`;
}

export async function sendMessage(
  wanted: string,
  text: string,
  { json, ...asked }: TalkFlags,
): Promise<number> {
  const params = named(wanted);
  const { client } = await needGateway();
  const { message } = await client.sendMessage({ params, body: { text, ...asked } });
  if (json === true) print(toJson(message));
  else print(`${message.id} waits for ${message.sessionId}\n`);
  return 0;
}

/** What no session can be called is said to be none, without a gateway. */
function named(wanted: string): { readonly id: string } {
  if (wanted === "" || wanted.length > 200) throw new NotFound(`session ${wanted.slice(0, 200)}`);
  return { id: wanted };
}
