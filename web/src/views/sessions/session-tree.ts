import type { Session } from "../../api/types.js";

export interface TreeRow {
  readonly session: Session;
  /** 0: its parent is not in the list. */
  readonly depth: number;
  /** Null: its parent is not in the list. */
  readonly parent: Session | null;
}

/** Sessions in the order of their tree: each below its nearest ancestor in the list, newest first. */
export function treeRows(sessions: readonly Session[]): readonly TreeRow[] {
  const byId = new Map(sessions.map((session) => [session.id, session]));
  const children = new Map<string | null, Session[]>();
  const parentOf = ({ lineage }: Session): Session | null => {
    const above = lineage.map((id) => byId.get(id)).filter((each) => each !== undefined);
    // The nearest ancestor is the one with the most ancestors of its own.
    return above.toSorted((one, other) => other.lineage.length - one.lineage.length)[0] ?? null;
  };
  const parents = new Map(sessions.map((session) => [session.id, parentOf(session)]));
  for (const session of sessions) {
    const parent = parents.get(session.id)?.id ?? null;
    children.set(parent, [...(children.get(parent) ?? []), session]);
  }
  const rows: TreeRow[] = [];
  const seen = new Set<string>();
  const append = (parent: Session | null, depth: number): void => {
    for (const session of children.get(parent?.id ?? null) ?? []) {
      if (seen.has(session.id)) continue;
      seen.add(session.id);
      rows.push({ session, depth, parent });
      append(session, depth + 1);
    }
  };
  append(null, 0);
  return rows;
}
