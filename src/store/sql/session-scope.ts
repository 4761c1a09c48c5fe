import { sql } from "kysely";
import type { RawBuilder } from "kysely";
import type { SessionScope } from "../sessions/store.js";
import type { SqlDialect } from "./engine.js";

/** Whether a row of `sessions` is in the scope: the same answer as canSeeSessionRow, which a property test compares. */
export function isSessionInScope(
  dialect: SqlDialect,
  { sessionId, descendants, agentIds }: SessionScope,
): RawBuilder<boolean> {
  if (agentIds === "any") return sql<boolean>`true`;
  const parts = [sql<boolean>`sessions.id = ${sessionId}`];
  if (descendants)
    parts.push(
      sql`exists (select 1 from ${dialect.jsonItems("sessions.lineage")} as ancestor where ancestor.value = ${sessionId})`,
    );
  if (agentIds.length > 0) parts.push(sql`sessions.agent_id in (${sql.join(agentIds)})`);
  return sql<boolean>`(${sql.join(parts, sql` or `)})`;
}

/** Whether a column names a session in the scope. The sessions are read once for the whole statement. */
export function isColumnInScope(
  dialect: SqlDialect,
  column: string,
  scope: SessionScope,
): RawBuilder<boolean> {
  return sql<boolean>`${sql.ref(column)} in (select sessions.id from sessions where ${isSessionInScope(dialect, scope)})`;
}
