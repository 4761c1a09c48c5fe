import { BadInput } from "../errors.js";
import { looksLikeSessionId } from "../model/ids.js";
import type { SessionRecord, SessionScope } from "../model/session.js";
import type { SessionReads } from "../store/sessions/contract.js";

/** The sessions that a requester may see, and the names that are its own. */
export interface NameLookup {
  /** The key of the requesting session: names of its own children come first. Null: the operator. */
  readonly ownKey: string | null;
  /** Null: every session is visible. */
  readonly scope: SessionScope | null;
  readonly canSee: (session: SessionRecord) => boolean;
}

type SessionLookup = Pick<SessionReads, "getSession" | "getSessionByKey" | "listSessions">;

/** The whole key of a child of the requesting session; null: the operator has no children. */
function ownName({ ownKey }: NameLookup, name: string): string | null {
  return ownKey === null ? null : `${ownKey}/${name}`;
}

/**
 * Finds a visible session by its id or key. A key means the open session with it, or else the newest closed one. Null:
 * there is none.
 */
export async function findSessionByName(
  store: SessionLookup,
  wanted: string,
  lookup: NameLookup,
): Promise<SessionRecord | null> {
  const visible = (row: SessionRecord | null): SessionRecord | null =>
    row !== null && lookup.canSee(row) ? row : null;
  if (looksLikeSessionId(wanted)) return visible(await store.getSession(wanted));
  const keys = [ownName(lookup, wanted), wanted].filter((key) => key !== null);
  for (const key of keys) {
    const open = visible(await store.getSessionByKey(key));
    if (open !== null) return open;
  }
  const seenBy = lookup.scope === null ? {} : { seenBy: lookup.scope };
  for (const key of keys) {
    const [newest] = await store.listSessions({ key, open: false, ...seenBy, limit: 1 });
    if (newest !== undefined) return newest;
  }
  return null;
}

/** Sessions that match an abbreviation and are compared. */
const MAX_CANDIDATES = 1_000;
/** Sessions that the error of an ambiguous name lists. */
const MAX_NAMED = 5;

/**
 * Finds a visible session by the last part of its key, or by the beginning of its key or id; open sessions first.
 * Rejects with BadInput if several sessions match. Null: there is none.
 */
export async function findSessionByAbbreviation(
  store: Pick<SessionLookup, "listSessions">,
  wanted: string,
  { scope }: NameLookup,
): Promise<SessionRecord | null> {
  if (wanted === "") return null;
  const seenBy = scope === null ? {} : { seenBy: scope };
  for (const open of [true, false]) {
    const some = await store.listSessions({ abbreviation: wanted, open, ...seenBy, limit: MAX_CANDIDATES });
    const found = matchAbbreviation(wanted, some);
    if (found !== null) return found;
  }
  return null;
}

/** `sessions`: newest first. The newest of several sessions with one key is meant. */
function matchAbbreviation(wanted: string, sessions: readonly SessionRecord[]): SessionRecord | null {
  const newest = [...new Map(sessions.toReversed().map((each) => [each.key, each])).values()].toReversed();
  return (
    only(
      wanted,
      "the last part of the keys",
      newest.filter(({ key }) => key.endsWith(`/${wanted}`)),
    ) ??
    only(
      wanted,
      "the beginning of the keys or ids",
      // An older session with the same key is meant if its id is given.
      sessions.filter(
        (each) => isIdPrefix(wanted, each.id) || (newest.includes(each) && each.key.startsWith(wanted)),
      ),
    )
  );
}

function only(wanted: string, what: string, found: readonly SessionRecord[]): SessionRecord | null {
  if (found.length < 2) return found[0] ?? null;
  const named = found.slice(0, MAX_NAMED).map(({ id, key }) => `${key} (${id})`);
  const more = found.length > MAX_NAMED ? ", …" : "";
  throw new BadInput(
    "session",
    `${JSON.stringify(wanted)} is ${what} of several sessions: ${named.join(", ")}${more}; name one by its id. Nothing was done`,
  );
}

const ID_PREFIX = "ses_";

/** The type prefix may be left out; alone it matches nothing. */
function isIdPrefix(wanted: string, id: string): boolean {
  return (id.startsWith(wanted) && wanted.length > ID_PREFIX.length) || id.startsWith(ID_PREFIX + wanted);
}
