import type { RequestOf, ResponseOf } from "../../api/contract.js";
import { NotFound } from "../../errors.js";
import type { SessionRow, Visibility } from "../../model/session.js";
import { closedTreeExitCode, closeText, leaseText, printClosedTree } from "../acp/view/close-result.js";
import { openPermissionText } from "../acp/view/notice-texts.js";
import { assertOperator, connectOrStart } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import type { JsonFlag } from "../options/command-definition.js";
import { formatElapsed } from "../../text/format-units.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { print, printRequired, toRecordJson } from "../print/write-output.js";
import { printTable } from "../print/table.js";
import { type DisplayField, fieldLines } from "../print/fields.js";

/** Opens a session and prints its token. */
export async function createSession(
  body: RequestOf<"openSession">["body"],
  { json = false }: JsonFlag,
): Promise<number> {
  assertOperator("open a session");
  const { client } = await connectOrStart();
  const answer = await client.openSession({ body });
  printRequired(
    json ? toRecordJson(answer) : `${answer.session.id}\n${answer.token}\n`,
    `${answer.session.id} is open, but its token could not be written; run the same command again for another token`,
  );
  if (!json)
    notice(
      answer.created
        ? "the second line is its token, shown only once; put it in HOLDFAST_TOKEN to act for the session"
        : "a session with this key is already open; the second line is another token for it, shown only once",
      "dim",
    );
  return 0;
}

export interface SessionFlags extends JsonFlag {
  readonly visibility?: Visibility;
}

interface ListSessionsFlags extends SessionFlags {
  readonly all?: true;
  readonly limit: number;
}

export async function printSessions({ all, json = false, ...query }: ListSessionsFlags): Promise<number> {
  await using reader = await openReadClient();
  const { sessions } = await reader.client.listSessions({
    query: { ...query, ...(all === true ? { all: "1" as const } : {}) },
  });
  if (json) print(toRecordJson(sessions, 2));
  else if (sessions.length === 0) notice("there are no sessions", "dim");
  else printTable(COLUMNS, sessions.map(sessionRow));
  return 0;
}

const COLUMNS = [
  "SESSION",
  "STATUS",
  { name: "CREATED", optional: 2 },
  { name: "AGENT", optional: 3 },
  { name: "LEASE", optional: 1 },
  { name: "SEES", optional: 1 },
  { name: "RULES", optional: 1 },
  "KEY",
];

function sessionRow(session: SessionRow): string[] {
  const { id, key, agentId, visibility, execRules, createdAt, closedAt, leaseState } = session;
  const status = closedAt === null ? "open" : `closed ${formatElapsed(closedAt)} ago`;
  return [
    id,
    status,
    `${formatElapsed(createdAt)} ago`,
    agentId ?? "-",
    leaseState ?? "-",
    visibility,
    String(execRules.length),
    key,
  ];
}

export async function rotateSessionToken(
  wanted: string,
  body: RequestOf<"rotateToken">["body"],
  { json = false }: JsonFlag,
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

interface CloseSessionFlags extends JsonFlag {
  readonly reason?: string;
  readonly tree?: boolean;
}

/** Closes a session. Its tokens end; its runs and the sessions below it continue, unless `tree` is given. */
export async function closeSessionCommand(
  wanted: string,
  { reason, tree = false, json = false }: CloseSessionFlags,
): Promise<number> {
  assertOperator("close a session");
  const { client } = await connectOrStart();
  const { session } = await client.sessionStatus({ params: sessionParams(wanted) });
  const { id, key, closedAt } = session;
  const answer = await client.closeSession({
    params: { id },
    query: { ...(reason === undefined ? {} : { reason }), ...(tree ? { tree: "1" as const } : {}) },
  });
  const { closed, children, runs } = answer;
  const took = tree && children.length + runs.length > 0;
  if (!closed && !took) {
    notice(
      `${id} (${key}) was closed ${formatElapsed(closedAt ?? Date.now())} ago; nothing was done`,
      "yellow",
    );
    return exitCodes.notThere;
  }
  if (json) print(toRecordJson({ sessionId: id, ended: true, children, runs }));
  else {
    if (closed) print(`${id} is closed; its tokens are no longer valid\n`);
    printClosedTree(answer, tree, `holdfast sessions close ${id} --tree`);
  }
  return closedTreeExitCode(answer, tree);
}

type SessionStatusAnswer = ResponseOf<"sessionStatus">;

export async function showSession(wanted: string, { json = false, ...query }: SessionFlags): Promise<number> {
  const params = sessionParams(wanted);
  await using reader = await openReadClient();
  const status = await reader.client.sessionStatus({ params, query });
  if (json) {
    print(toRecordJson(status));
    return 0;
  }
  const { session, state, runs, messages, acp } = status;
  const { id, key, agentId, backend, visibility, sandboxed } = session;
  const owner = session.parentSessionKey ?? session.ownerSessionKey ?? session.spawnedBy;
  const lines = fieldLines([
    ["session", `${id} (${key})`],
    ["state", state],
    ["closed", closeText(session)],
    ["agent", agentId ?? "-"],
    ["backend", backend ?? "-"],
    ["sees", sandboxed ? `${visibility}, sandboxed` : visibility],
    ["belongs to", owner ?? "-"],
    ["messages", messageCounts(messages)],
    ...(acp === null ? [] : acpFields(acp)),
    ["lease", leaseText(session)],
    ...runs.map(({ runId, command, leaseId, leaseState }): DisplayField => [
      "run",
      `${runId} ${command} (lease ${leaseId}, ${leaseState})`,
    ]),
  ]);
  print(`${lines.join("\n")}\n`);
  return 0;
}

function messageCounts({ total, pending, undelivered, lastAt }: SessionStatusAnswer["messages"]): string {
  const lost = undelivered === 0 ? "" : `, ${undelivered} not delivered`;
  return `${total}, ${pending} waiting${lost}${lastAt === null ? "" : `, the last ${formatElapsed(lastAt)} ago`}`;
}

function acpFields(acp: NonNullable<SessionStatusAnswer["acp"]>): DisplayField[] {
  const { state, mode, problem, turn, queued, permissions } = acp;
  return [
    ["acp", `${state}, mode ${mode}${problem === null ? "" : `: ${problem.message}`}`],
    ["turn", turn === null ? null : turnText(turn)],
    ...queued.map((each): DisplayField => ["queued", turnText(each)]),
    ...permissions.map((each): DisplayField => ["asks", openPermissionText(each, Date.now())]),
  ];
}

type StatusTurn = NonNullable<SessionStatusAnswer["acp"]>["queued"][number];

function turnText({ turnId, askedBy, startedAt, createdAt }: StatusTurn): string {
  return `${turnId} of ${askedBy}, for ${formatElapsed(startedAt ?? createdAt)}`;
}

/** A text that cannot be a session's id or key is not found, without a gateway. */
export function sessionParams(wanted: string): { readonly id: string } {
  if (wanted === "" || wanted.length > 200) throw NotFound.session(wanted);
  return { id: wanted };
}
