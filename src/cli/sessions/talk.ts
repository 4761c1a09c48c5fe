import { NotFound } from "../../errors.js";
import { sanitizeLine } from "../../text/sanitize.js";
import type { ResponseOf } from "../../api/contract.js";
import type { MessageDelivery } from "../../model/message.js";
import type { SessionRecord, Visibility } from "../../model/session.js";
import { expiryText, permissionSubject } from "../acp/permission-line.js";
import { formatDuration } from "../options/units.js";
import { connectOrStart } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import { toJson } from "../json.js";
import { print } from "../print/stdout.js";

type SessionStatusAnswer = ResponseOf<"sessionStatus">;

export interface SessionFlags {
  readonly visibility?: Visibility;
  readonly json?: true;
}

export interface SendMessageFlags extends SessionFlags {
  readonly deliver?: MessageDelivery;
}

export async function showSession(wanted: string, { json, ...query }: SessionFlags): Promise<number> {
  const params = sessionParams(wanted);
  await using reader = await openReadClient();
  const status = await reader.client.sessionStatus({ params, query });
  if (json === true) {
    print(toJson(status));
    return 0;
  }
  const { session, state, runs, messages, acp } = status;
  const now = Date.now();
  const facts: [string, string][] = [
    ["session", `${session.id} (${session.key})`],
    ["state", state],
    ["agent", session.agentId ?? "-"],
    ["backend", session.backend ?? "-"],
    ["sees", session.sandboxed ? `${session.visibility}, sandboxed` : session.visibility],
    ["belongs to", belongsTo(session)],
    ["messages", messagesText(messages, now)],
    ...(acp === null ? [] : acpFields(acp, now)),
    ...runs.map(({ runId, command }): [string, string] => ["run", `${runId} ${command}`]),
  ];
  const width = Math.max(...facts.map(([name]) => name.length));
  print(facts.map(([name, value]) => `${name.padEnd(width)}  ${sanitizeLine(value)}\n`).join(""));
  return 0;
}

function belongsTo({ parentSessionKey, ownerSessionKey, spawnedBy }: SessionRecord): string {
  return parentSessionKey ?? ownerSessionKey ?? spawnedBy ?? "-";
}

function messagesText(
  { total, pending, undelivered, lastAt }: SessionStatusAnswer["messages"],
  now: number,
): string {
  const lost = undelivered === 0 ? "" : `, ${undelivered} not delivered`;
  return `${total}, ${pending} waiting${lost}${lastMessageText(lastAt, now)}`;
}

function acpFields(
  { state, mode, problem, turn, queued, permissions }: NonNullable<SessionStatusAnswer["acp"]>,
  now: number,
): [string, string][] {
  const ago = (at: number): string => formatDuration(Math.max(0, now - at));
  return [
    ["acp", `${state}, mode ${mode}${problem === null ? "" : `: ${problem.message}`}`],
    ...(turn === null
      ? []
      : [
          ["turn", `${turn.turnId} of ${turn.askedBy}, for ${ago(turn.startedAt ?? turn.createdAt)}`] as [
            string,
            string,
          ],
        ]),
    ...queued.map(({ turnId, askedBy, createdAt }): [string, string] => [
      "queued",
      `${turnId} of ${askedBy}, for ${ago(createdAt)}`,
    ]),
    ...permissions.map((each): [string, string] => [
      "asks",
      `${each.id} ${permissionSubject(each)} (${expiryText(each, now)})`,
    ]),
  ];
}

function lastMessageText(at: number | null, now: number): string {
  return at === null ? "" : `, the last ${formatDuration(Math.max(0, now - at))} ago`;
}

export async function sendSessionMessage(
  wanted: string,
  text: string,
  { json, ...asked }: SendMessageFlags,
): Promise<number> {
  const params = sessionParams(wanted);
  const { client } = await connectOrStart();
  const { message } = await client.sendMessage({ params, body: { text, ...asked } });
  if (json === true) print(toJson(message));
  else print(`${message.id} waits for ${message.sessionId}\n`);
  return 0;
}

/** What no session can be called is said to be none, without a gateway. */
export function sessionParams(wanted: string): { readonly id: string } {
  if (wanted === "" || wanted.length > 200) throw new NotFound(`session ${wanted.slice(0, 200)}`);
  return { id: wanted };
}
