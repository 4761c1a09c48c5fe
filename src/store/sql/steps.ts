import type { Compilable, QueryResult } from "kysely";

/**
 * What a call does, statement by statement, said once for all databases: whoever drives it executes what it yields and
 * hands the answer back, at once (SQLite) or when it comes (PostgreSQL).
 */
export type Steps<Result> = Generator<Compilable, Result, QueryResult<unknown>>;

export function* fetchRows<Row>(query: Compilable<Row>): Steps<readonly Row[]> {
  return (yield query).rows as Row[];
}

/** How many rows a statement has changed. */
export function* countChanged(statement: Compilable): Steps<number> {
  return Number((yield statement).numAffectedRows ?? 0n);
}
