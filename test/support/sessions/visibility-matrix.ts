import type { Visibility } from "../../../src/model/session.js";
import { VISIBILITIES } from "../../../src/model/enums.js";

/** The relation of a session to the requester. */
export const RELATIONS = [
  "itself",
  "own child",
  "own cross-agent child",
  "own grandchild",
  "same agent",
  "cross agent",
] as const;
export type Relation = (typeof RELATIONS)[number];

export interface VisibilityCase {
  readonly visibility: Visibility;
  readonly a2a: boolean;
  readonly sandboxed: boolean;
  readonly relation: Relation;
  readonly visible: boolean;
}

/**
 * The visibility of each relation: `+` visible, `-` answered like a missing session. The columns of each group are self,
 * tree, agent, all.
 */
const VISIBILITY_TABLE = `
                        not sandboxed           sandboxed
                        a2a off     a2a on      a2a off     a2a on
itself                  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +  +
own child               -  +  +  +  -  +  +  +  -  +  +  +  -  +  +  +
own cross-agent child   -  +  +  +  -  +  +  +  -  +  +  +  -  +  +  +
own grandchild          -  +  +  +  -  +  +  +  -  +  +  +  -  +  +  +
same agent              -  -  +  +  -  -  +  +  -  -  -  -  -  -  -  -
cross agent             -  -  -  -  -  -  -  +  -  -  -  -  -  -  -  -
`;

export const visibilityMatrix: readonly VisibilityCase[] = RELATIONS.flatMap((relation) => {
  const row = VISIBILITY_TABLE.split("\n").find((line) => line.startsWith(`${relation}  `)) ?? "";
  const marks = row.slice(relation.length).trim().split(/\s+/);
  return [false, true].flatMap((sandboxed, box) =>
    [false, true].flatMap((a2a, policy) =>
      VISIBILITIES.map((visibility, level) => {
        const mark = marks[box * 8 + policy * 4 + level];
        return { visibility, a2a, sandboxed, relation, visible: mark === "+" };
      }),
    ),
  );
});
