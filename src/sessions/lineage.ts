import type { SessionRow } from "../store/session-record.js";

/** Ids of all ancestors of a session with these as its nearest, each once. */
export function lineageOf(nearest: readonly Pick<SessionRow, "id" | "lineage">[]): readonly string[] {
  return [...new Set(nearest.flatMap(({ id, lineage }) => [id, ...lineage]))];
}
