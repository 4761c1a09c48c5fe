import { isatty } from "node:tty";
import { NotFound } from "../../errors.js";
import type { RequestOf } from "../../api/contract.js";
import { sanitizeLine } from "../../text/sanitize.js";
import type { SessionRecord, Visibility } from "../../model/session.js";
import { notice } from "../print/stderr.js";
import { formatDuration } from "../options/units.js";
import { assertOperator, connectOrStart } from "../client/connect.js";
import { openReadClient } from "../client/read-client.js";
import { toJson } from "../json.js";
import { paletteFor } from "../print/palette.js";
import { print, printRequired } from "../print/stdout.js";
import { formatTable } from "../print/table.js";

/** Open a session and show its token, this once. */
export async function createSession(body: RequestOf<"openSession">["body"], json: boolean): Promise<number> {
  assertOperator("open a session");
  const { client } = await connectOrStart();
  const answer = await client.openSession({ body });
  printRequired(
    json ? toJson(answer) : `${answer.session.id}\n${answer.token}\n`,
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
  if (json === true) print(toJson(sessions, 2));
  else if (sessions.length === 0) notice("there are no sessions to be seen", "dim");
  else print(`${sessionTable(sessions, Date.now(), isatty(1) ? process.stdout.columns : null).join("\n")}\n`);
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
  const head = ["SESSION", "STATUS", "CREATED", "AGENT", "SEES", "RULES", "KEY"];
  const [first, ...lines] = formatTable([head, ...rows], width);
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
    json ? toJson(answer) : `${answer.token}\n`,
    `the tokens of ${answer.session.id} were rotated, but the new token could not be written to the output; run the same command again for another token`,
  );
  return 0;
}

/** By id, or by the key that an open session has. Its tokens are dead from here on; its runs go on. */
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
  if (json) print(toJson({ sessionId: id, ended: true }));
  else print(`${id} has ended; its tokens are dead, its runs go on\n`);
  return 0;
}
