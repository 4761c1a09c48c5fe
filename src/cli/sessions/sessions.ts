import type { RequestOf, ResponseOf } from "../../api/contract.js";
import { NotFound } from "../../errors.js";
import type { MessageDelivery, SessionRecord, Visibility } from "../../model/session.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { expiryText, permissionSubject } from "../acp/view/texts.js";
import { assertOperator, connectOrStart } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import { formatDuration } from "../options/units.js";
import { notice } from "../print/stderr.js";
import { print, printRequired, toRecordJson } from "../print/stdout.js";
import { formatTable, terminalWidth } from "../print/table.js";
import { paletteFor } from "../print/terminal.js";

/** Opens a session and prints its token. */
export async function createSession(body: RequestOf<"openSession">["body"], json: boolean): Promise<number> {
  assertOperator("open a session");
  const { client } = await connectOrStart();
  const answer = await client.openSession({ body });
  printRequired(
    json ? toRecordJson(answer) : `${answer.session.id}\n${answer.token}\n`,
    `${answer.session.id} is open, but its token could not be written; the same command gives another`,
  );
  if (!json)
    notice(
      answer.created
        ? "the second line is its token, shown this once; put it in HOLDFAST_TOKEN to act for the session"
        : "a session of this key was open; the second line is one more token of it, shown this once",
      "dim",
    );
  return 0;
}

export interface ListSessionsFlags {
  readonly all?: true;
  readonly limit: number;
  readonly visibility?: Visibility;
  readonly json?: true;
}

export async function printSessions({ all, json, ...query }: ListSessionsFlags): Promise<number> {
  await using reader = await openReadClient();
  const { sessions } = await reader.client.listSessions({
    query: { ...query, ...(all === true ? { all: "1" as const } : {}) },
  });
  if (json === true) print(toRecordJson(sessions, 2));
  else if (sessions.length === 0) notice("there are no sessions to be seen", "dim");
  else print(`${sessionTable(sessions, Date.now(), terminalWidth()).join("\n")}\n`);
  return 0;
}

function sessionTable(sessions: readonly SessionRecord[], now: number, width: number | null): string[] {
  const ago = (at: number): string => `${formatDuration(Math.max(0, now - at))} ago`;
  const rows = sessions.map(({ id, key, agentId, visibility, execRules, createdAt, closedAt }) => [
    id,
    closedAt === null ? "open" : `ended ${ago(closedAt)}`,
    ago(createdAt),
    sanitizeLine(agentId ?? "-"),
    visibility,
    String(execRules.length),
    sanitizeLine(key),
  ]);
  const head = [
    "SESSION",
    "STATUS",
    { name: "CREATED", optional: 2 },
    { name: "AGENT", optional: 3 },
    { name: "SEES", optional: 1 },
    { name: "RULES", optional: 1 },
    "KEY",
  ];
  const [first, ...lines] = formatTable(head, rows, width);
  return [paletteFor(1).bold(first ?? ""), ...lines];
}

/** Issue a new token and end the session's other tokens. */
export async function rotateSessionToken(
  wanted: string,
  body: RequestOf<"rotateToken">["body"],
  json: boolean,
): Promise<number> {
  assertOperator("rotate a token");
  const { client } = await connectOrStart();
  const answer = await client.rotateToken({ params: { id: wanted }, body });
  printRequired(
    json ? toRecordJson(answer) : `${answer.token}\n`,
    `the tokens of ${answer.session.id} were rotated, but the new token could not be written to the output; run the same command again for another token`,
  );
  return 0;
}

/** Closes a session by its id or key. Its tokens end; its runs continue. */
export async function closeSessionCommand(wanted: string, json: boolean): Promise<number> {
  assertOperator("end a session");
  const { client } = await connectOrStart();
  const { sessions } = await client.listSessions({ query: { limit: 1_000 } });
  const found = sessions.find(({ id, key }) => id === wanted || key === wanted);
  const id = found?.id ?? wanted;
  const { closed } = /^ses_[0-9a-z]{12}$/.test(id)
    ? await client.closeSession({ params: { id } })
    : { closed: false };
  if (!closed) throw new NotFound(`open session ${wanted}`);
  if (json) print(toRecordJson({ sessionId: id, ended: true }));
  else print(`${id} has ended; its tokens are dead, its runs go on\n`);
  return 0;
}

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
    print(toRecordJson(status));
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
  if (json === true) print(toRecordJson(message));
  else print(`${message.id} waits for ${message.sessionId}\n`);
  return 0;
}

/** A text that cannot be a session's id or key is not found, without a gateway. */
export function sessionParams(wanted: string): { readonly id: string } {
  if (wanted === "" || wanted.length > 200) throw new NotFound(`session ${wanted.slice(0, 200)}`);
  return { id: wanted };
}
