import { isatty } from "node:tty";
import { NotFound } from "../../errors.js";
import type { AskedOf } from "../../gateway/contract/contract.js";
import { sanitizeLine } from "../../output/sanitize.js";
import type { SessionRow, Visibility } from "../../store/session-record.js";
import { say } from "../complain.js";
import { formatDuration } from "../duration.js";
import { mustBeOperator, needGateway } from "../gateway/connect.js";
import { openLook } from "../gateway/look.js";
import { toJson } from "../json.js";
import { paletteFor } from "../palette.js";
import { print, printOnce } from "../runs/print.js";
import { table } from "../runs/table.js";

/** Open a session and show its token, this once. */
export async function createSession(body: AskedOf<"openSession">["body"], json: boolean): Promise<number> {
  mustBeOperator("open a session");
  const { client } = await needGateway();
  const answer = await client.openSession({ body });
  printOnce(
    json ? toJson(answer) : `${answer.session.id}\n${answer.token}\n`,
    `${answer.session.id} is open, but its token could not be written; the same command gives another`,
  );
  if (!json)
    say(
      answer.created
        ? "the second line is its token, shown this once; put it in HOLDFAST_TOKEN to act for the session"
        : "a session of this key was open; the second line is one more token of it, shown this once",
      "dim",
    );
  return 0;
}

export interface ListFlags {
  readonly all?: true;
  readonly limit: number;
  readonly visibility?: Visibility;
  readonly json?: true;
}

export async function listSessions({ all, json, ...query }: ListFlags): Promise<number> {
  await using look = await openLook();
  const { sessions } = await look.client.listSessions({
    query: { ...query, ...(all === true ? { all: "1" as const } : {}) },
  });
  if (json === true) print(toJson(sessions, 2));
  else if (sessions.length === 0) say("there are no sessions to be seen", "dim");
  else print(`${sessionLines(sessions, Date.now(), isatty(1) ? process.stdout.columns : null).join("\n")}\n`);
  return 0;
}

function sessionLines(sessions: readonly SessionRow[], now: number, width: number | null): string[] {
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
  const [first, ...lines] = table([head, ...rows], width);
  return [paletteFor(1).bold(first ?? ""), ...lines];
}

/** Issue a new token and end the session's other tokens. */
export async function rotateToken(
  wanted: string,
  body: AskedOf<"rotateToken">["body"],
  json: boolean,
): Promise<number> {
  mustBeOperator("rotate a token");
  const { client } = await needGateway();
  const answer = await client.rotateToken({ params: { id: wanted }, body });
  printOnce(
    json ? toJson(answer) : `${answer.token}\n`,
    `the tokens of ${answer.session.id} were rotated, but the new token could not be written to the output; run the same command again for another token`,
  );
  return 0;
}

/** By id, or by the key that an open session has. Its tokens are dead from here on; its runs go on. */
export async function endSession(wanted: string, json: boolean): Promise<number> {
  mustBeOperator("end a session");
  const { client } = await needGateway();
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
