import { expect, test } from "vitest";
import { canSeeSessionRow } from "../../src/sessions/visibility.js";
import { VISIBILITIES } from "../../src/model/enums.js";
import { visibilityMatrix, RELATIONS, type Relation } from "../support/visibility-matrix.js";

const requester = { id: "ses_me", agentId: "codex" };
const rows: Readonly<
  Record<Relation, { readonly id: string; readonly agentId: string; readonly lineage: readonly string[] }>
> = {
  itself: { ...requester, lineage: [] },
  "own child": { id: "ses_child", agentId: "codex", lineage: ["ses_me"] },
  "own cross-agent child": { id: "ses_cross", agentId: "claude", lineage: ["ses_me"] },
  "own grandchild": { id: "ses_grand", agentId: "gemini", lineage: ["ses_cross", "ses_me"] },
  "same agent": { id: "ses_same", agentId: "codex", lineage: [] },
  "cross agent": { id: "ses_other", agentId: "claude", lineage: [] },
};

test("the table has every case once", () => {
  expect(visibilityMatrix).toHaveLength(VISIBILITIES.length * 2 * 2 * RELATIONS.length);
  expect(visibilityMatrix.filter(({ visible }) => visible)).toHaveLength(16 + 3 * 12 + 4 + 1);
});

test.each(visibilityMatrix)(
  "$relation, at $visibility, a2a $a2a, sandboxed $sandboxed: $visible",
  ({ relation, visibility, a2a, sandboxed, visible }) => {
    const a2aPolicy = { enabled: a2a, allow: [{ from: "codex", to: "claude" }] };
    const sight = canSeeSessionRow({ row: rows[relation], requester, visibility, a2aPolicy, sandboxed });
    expect(sight.visible).toBe(visible);
  },
);
