import type { SessionRecord } from "../model/session.js";

/** Ids of all ancestors of a session with these as its nearest, each once. */
export function ancestorIds(nearest: readonly Pick<SessionRecord, "id" | "lineage">[]): readonly string[] {
  return [...new Set(nearest.flatMap(({ id, lineage }) => [id, ...lineage]))];
}
