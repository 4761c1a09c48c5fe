import type { GatewayClient } from "../../api/client.js";
import type { ResponseOf } from "../../api/contract.js";
import { BadInput, NotFound } from "../../errors.js";
import { sessionToken } from "./requester.js";

/** The full name of a session: sessions that a session creates have its key as a prefix. */
export function qualifiedSessionName(name: string): string {
  const mine = process.env["HOLDFAST_SESSION_KEY"];
  return sessionToken() === null || mine === undefined || mine === "" ? name : `${mine}/${name}`;
}

export type AcpSessionSummary = ResponseOf<"acpList">["sessions"][number];

/** The largest page of the API. */
const LIST_LIMIT = 1_000;
/** Sessions named in the error about an ambiguous name. */
const NAMED_SESSIONS = 5;

/**
 * Finds a session by its id, by its name (one's own first), or by an unambiguous beginning of either; open sessions
 * first.
 */
export async function resolveAcpSession(
  client: Pick<GatewayClient, "acpList">,
  wanted: string,
): Promise<AcpSessionSummary> {
  const among = async (query: { readonly all?: "1" }): Promise<AcpSessionSummary | null> =>
    matchAcpSession(
      wanted,
      (await client.acpList({ query: { ...query, limit: LIST_LIMIT } })).sessions,
      qualifiedSessionName(wanted),
    );
  const found = wanted === "" ? null : ((await among({})) ?? (await among({ all: "1" })));
  if (found === null) throw new NotFound(`ACP session ${wanted.slice(0, 200)}`);
  return found;
}

/**
 * The newest session with that id or name; else the only one whose name ends with it; else the only one that begins
 * with it. Null: there is none.
 */
export function matchAcpSession(
  wanted: string,
  sessions: readonly AcpSessionSummary[],
  own = wanted,
): AcpSessionSummary | null {
  const exact =
    sessions.find(({ key }) => key === own) ??
    sessions.find(({ sessionId, key }) => sessionId === wanted || key === wanted);
  return (
    exact ??
    only(wanted, "the name", ({ key }) => key.endsWith(`/${wanted}`)) ??
    only(
      wanted,
      "the beginning",
      ({ sessionId, key }) => key.startsWith(wanted) || isIdPrefix(wanted, sessionId),
    )
  );

  function only(
    text: string,
    what: string,
    fits: (session: AcpSessionSummary) => boolean,
  ): AcpSessionSummary | null {
    const found = sessions.filter(fits);
    if (found.length < 2) return found[0] ?? null;
    const named = found.slice(0, NAMED_SESSIONS).map(({ sessionId, key }) => `${key} (${sessionId})`);
    const more = found.length > NAMED_SESSIONS ? ", …" : "";
    throw new BadInput(
      "session",
      `${JSON.stringify(text)} is ${what} of several ACP sessions: ${named.join(", ")}${more}`,
    );
  }
}

/** The type prefix alone matches nothing. */
function isIdPrefix(wanted: string, sessionId: string): boolean {
  return (
    (sessionId.startsWith(wanted) && !SESSION_ID_PREFIX.startsWith(wanted)) ||
    sessionId.startsWith(SESSION_ID_PREFIX + wanted)
  );
}

const SESSION_ID_PREFIX = "ses_";
