import { sql } from "kysely";
import type { NewAcpUpdate } from "../../model/acp/session-and-turn.js";
import { countChanged, type SqlEngine, type Steps } from "../sql/engine.js";

/** Characters of JSON in one statement: the database needs several times as much memory to parse it. */
const STATEMENT_CHARS = 1024 * 1024;

/** Fewer updates than this are inserted one by one. */
const FEWEST_IN_ARRAY = 3;

/** Updates that differ in nothing but their data. */
interface Group {
  readonly first: NewAcpUpdate;
  /** The number of the first. */
  readonly seq: number;
  readonly texts: readonly string[];
}

/**
 * Numbers the updates from `after` on and inserts them. An agent's updates arrive by the hundred, and a row with a
 * parameter for each of its columns would cost more than its insert; so those of one turn are inserted as the items of
 * one JSON array.
 */
export function* insertUpdates(
  engine: SqlEngine,
  sessionId: string,
  after: number,
  updates: readonly NewAcpUpdate[],
): Steps<void> {
  for (const { first, seq, texts } of groupsOf(updates, after + 1))
    if (texts.length >= FEWEST_IN_ARRAY) yield* insertArray(engine, sessionId, first, seq, texts);
    else
      for (const [index, data] of texts.entries()) {
        const { turnId, type, at } = first;
        const row = { session_id: sessionId, seq: seq + index, turn_id: turnId, type, at, data };
        yield* countChanged(
          engine.statements.bind("insert an ACP update", row, (places) =>
            engine.db.insertInto("acp_updates").values(places),
          ),
        );
      }
}

function* insertArray(
  { db, dialect }: SqlEngine,
  sessionId: string,
  { turnId, type, at }: NewAcpUpdate,
  seq: number,
  texts: readonly string[],
): Steps<void> {
  const items = dialect.jsonObjects(`[${texts.join(",")}]`);
  const insert = sql`
    insert into acp_updates (session_id, seq, turn_id, type, at, data)
    select ${sessionId}, ${seq - 1} + place, ${turnId}, ${type}, ${at}, text from ${items} as items`;
  yield* countChanged({ compile: () => insert.compile(db) });
}

function* groupsOf(updates: readonly NewAcpUpdate[], seq: number): Generator<Group, void, undefined> {
  let texts: string[] = [];
  let chars = 0;
  for (const [index, update] of updates.entries()) {
    const text = JSON.stringify(update.data);
    texts.push(text);
    chars += text.length;
    const next = updates[index + 1];
    if (next !== undefined && chars < STATEMENT_CHARS && isSimilar(update, next)) continue;
    yield { first: update, seq: seq + index + 1 - texts.length, texts };
    texts = [];
    chars = 0;
  }
}

/** The database keeps the JSON text of a value that it extracts from an array only if the value is an object. */
function isSimilar(one: NewAcpUpdate, other: NewAcpUpdate): boolean {
  return (
    one.turnId === other.turnId &&
    one.type === other.type &&
    one.at === other.at &&
    isObject(one.data) &&
    isObject(other.data)
  );
}

function isObject(data: unknown): boolean {
  return typeof data === "object" && data !== null && !Array.isArray(data);
}
