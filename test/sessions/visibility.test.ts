import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { VISIBILITIES } from "../../src/model/enums.js";
import { canSeeSessionRow, narrower, type VisibilityRequest } from "../../src/sessions/visibility.js";
import { type Relation, RELATIONS, visibilityMatrix } from "../support/sessions/visibility-matrix.js";

const off = { enabled: false, allow: [{ from: "*", to: "*" }] };
const closed = { enabled: true, allow: [] };
const toClaude = { enabled: true, allow: [{ from: "codex", to: "claude" }] };
const anyAgent = { enabled: true, allow: [{ from: "*", to: "*" }] };

const me = { id: "ses_me", agentId: "codex" };
const rows = {
  me: { ...me, lineage: [] },
  child: { id: "ses_child", agentId: "codex", lineage: ["ses_me"] },
  "cross-agent child": { id: "ses_other_child", agentId: "claude", lineage: ["ses_me"] },
  grandchild: { id: "ses_grandchild", agentId: "claude", lineage: ["ses_other_child", "ses_me"] },
  parent: { id: "ses_parent", agentId: "gemini", lineage: [] },
  colleague: { id: "ses_colleague", agentId: "codex", lineage: ["ses_parent"] },
  stranger: { id: "ses_stranger", agentId: "claude", lineage: ["ses_parent"] },
  "without an agent": { id: "ses_main", agentId: null, lineage: [] },
};

describe("examples", () => {
  test.each<[keyof typeof rows, Partial<VisibilityRequest>, boolean, string]>([
    ["me", { visibility: "self" }, true, "self"],
    ["me", { visibility: "self", sandboxed: true }, true, "self"],
    ["me", { visibility: "all", sandboxed: true }, true, "self"],
    ["child", { visibility: "self" }, false, "visibility-self"],
    ["child", { visibility: "tree" }, true, "lineage"],
    ["cross-agent child", { visibility: "tree", a2aPolicy: off }, true, "lineage"],
    ["cross-agent child", { visibility: "agent", a2aPolicy: off }, true, "lineage"],
    ["cross-agent child", { visibility: "all", a2aPolicy: closed }, true, "lineage"],
    ["cross-agent child", { visibility: "all", sandboxed: true }, true, "lineage"],
    ["cross-agent child", { visibility: "self", sandboxed: true }, false, "visibility-self"],
    ["grandchild", { visibility: "tree" }, true, "lineage"],
    ["grandchild", { visibility: "self" }, false, "visibility-self"],
    ["parent", { visibility: "tree" }, false, "visibility-tree"],
    ["parent", { visibility: "agent" }, false, "visibility-agent"],
    ["colleague", { visibility: "tree" }, false, "visibility-tree"],
    ["colleague", { visibility: "agent" }, true, "same-agent"],
    ["colleague", { visibility: "agent", sandboxed: true }, false, "sandboxed"],
    ["colleague", { visibility: "all", a2aPolicy: off }, true, "same-agent"],
    ["stranger", { visibility: "agent", a2aPolicy: anyAgent }, false, "visibility-agent"],
    ["stranger", { visibility: "all", a2aPolicy: off }, false, "a2a-disabled"],
    ["stranger", { visibility: "all", a2aPolicy: closed }, false, "a2a-no-rule"],
    ["stranger", { visibility: "all", a2aPolicy: toClaude }, true, "a2a"],
    ["stranger", { visibility: "all", a2aPolicy: toClaude, sandboxed: true }, false, "sandboxed"],
    ["parent", { visibility: "all", a2aPolicy: toClaude }, false, "a2a-no-rule"],
    ["without an agent", { visibility: "all", a2aPolicy: anyAgent }, true, "a2a"],
    ["without an agent", { visibility: "all", a2aPolicy: toClaude }, false, "a2a-no-rule"],
  ])("%s, %o: %s by %s", (row, change, visible, rule) => {
    const request = {
      requester: me,
      visibility: "tree",
      a2aPolicy: off,
      sandboxed: false,
      ...change,
    } as const;
    expect(canSeeSessionRow({ row: rows[row], ...request })).toEqual({ visible, rule });
  });

  test("two sessions without an agent are not of the same agent", () => {
    const requester = { id: "ses_1", agentId: null };
    const row = { id: "ses_2", agentId: null, lineage: [] };
    const request = { row, requester, a2aPolicy: off, sandboxed: false };
    expect(canSeeSessionRow({ ...request, visibility: "agent" }).visible).toBe(false);
    expect(canSeeSessionRow({ ...request, visibility: "all" }).visible).toBe(false);
  });

  test("a rule works in one direction only", () => {
    const requester = { id: "ses_stranger", agentId: "claude" };
    const request = { row: rows.me, requester, visibility: "all", sandboxed: false } as const;
    expect(canSeeSessionRow({ ...request, a2aPolicy: toClaude }).visible).toBe(false);
  });
});

/** Few names, so that they meet often. */
const id = fc.constantFrom("ses_1", "ses_2", "ses_3", "ses_4");
const agentId = fc.constantFrom("codex", "claude", "gemini", null);
const pattern = fc.constantFrom("codex", "claude", "gemini", "*");
const request = fc.record({
  row: fc.record({ id, agentId, lineage: fc.uniqueArray(id) }),
  requester: fc.record({ id, agentId }),
  visibility: fc.constantFrom(...VISIBILITIES),
  a2aPolicy: fc.record({
    enabled: fc.boolean(),
    allow: fc.array(fc.record({ from: pattern, to: pattern }), { maxLength: 3 }),
  }),
  sandboxed: fc.boolean(),
});
const sees = (asked: VisibilityRequest): boolean => canSeeSessionRow(asked).visible;

describe("for every request", () => {
  test("each level contains the one before", () => {
    fc.assert(
      fc.property(request, (asked) => {
        const seen = VISIBILITIES.map((visibility) => Number(sees({ ...asked, visibility })));
        expect(seen).toEqual(seen.toSorted((a, b) => a - b));
      }),
    );
  });

  test("a sandbox only narrows, and never below what tree shows", () => {
    fc.assert(
      fc.property(request, (asked) => {
        const free = sees({ ...asked, sandboxed: false });
        const clamped = sees({ ...asked, sandboxed: true });
        const tree = sees({ ...asked, sandboxed: false, visibility: "tree" });
        expect(clamped).toBe(asked.visibility === "self" ? free : tree);
        if (clamped) expect(free).toBe(true);
      }),
    );
  });

  test("the narrower of two levels shows the common sessions", () => {
    fc.assert(
      fc.property(request, fc.constantFrom(...VISIBILITIES), (asked, other) => {
        const both = sees(asked) && sees({ ...asked, visibility: other });
        expect(sees({ ...asked, visibility: narrower(asked.visibility, other) })).toBe(both);
      }),
    );
  });

  test("a descendant is visible from tree up, whatever policy, agent and sandbox", () => {
    fc.assert(
      fc.property(request, (asked) => {
        fc.pre(asked.visibility !== "self");
        const lineage = [...asked.row.lineage, asked.requester.id];
        expect(sees({ ...asked, row: { ...asked.row, lineage } })).toBe(true);
      }),
    );
  });

  test("only the requester's own id in a lineage matters", () => {
    fc.assert(
      fc.property(request, fc.array(id), (asked, others) => {
        const own = asked.row.lineage.filter((each) => each === asked.requester.id);
        const lineage = [...others.filter((each) => each !== asked.requester.id), ...own];
        expect(canSeeSessionRow({ ...asked, row: { ...asked.row, lineage } })).toEqual(
          canSeeSessionRow(asked),
        );
      }),
    );
  });

  test("below all, the a2a policy does not matter", () => {
    fc.assert(
      fc.property(request, request, (asked, { a2aPolicy }) => {
        fc.pre(asked.visibility !== "all");
        expect(canSeeSessionRow({ ...asked, a2aPolicy })).toEqual(canSeeSessionRow(asked));
      }),
    );
  });

  test("nothing else about a session matters: keys, owners, backend, age", () => {
    const noise = fc.record({
      key: fc.string(),
      ownerSessionKey: fc.option(fc.string()),
      spawnedBy: fc.option(fc.string()),
      parentSessionKey: fc.option(fc.string()),
      backend: fc.option(fc.string()),
      gatewayInstanceId: fc.string(),
      visibility: fc.constantFrom(...VISIBILITIES),
      sandboxed: fc.boolean(),
      createdAt: fc.nat(),
      closedAt: fc.option(fc.nat()),
    });
    fc.assert(
      fc.property(request, noise, noise, (asked, ofRow, ofRequester) => {
        const noisy = {
          ...asked,
          row: { ...ofRow, ...asked.row },
          requester: { ...ofRequester, ...asked.requester },
        };
        expect(canSeeSessionRow(noisy)).toEqual(canSeeSessionRow(asked));
      }),
    );
  });
});

const rowOf: Readonly<Record<Relation, keyof typeof rows>> = {
  itself: "me",
  "own child": "child",
  "own cross-agent child": "cross-agent child",
  "own grandchild": "grandchild",
  "same agent": "colleague",
  "cross agent": "stranger",
};

test("the table has every case once", () => {
  expect(visibilityMatrix).toHaveLength(VISIBILITIES.length * 2 * 2 * RELATIONS.length);
  expect(visibilityMatrix.filter(({ visible }) => visible)).toHaveLength(16 + 3 * 12 + 4 + 1);
});

test.each(visibilityMatrix)(
  "$relation, at $visibility, a2a $a2a, sandboxed $sandboxed: $visible",
  ({ relation, visibility, a2a, sandboxed, visible }) => {
    const a2aPolicy = { enabled: a2a, allow: [{ from: "codex", to: "claude" }] };
    const row = rows[rowOf[relation]];
    expect(sees({ row, requester: me, visibility, a2aPolicy, sandboxed })).toBe(visible);
  },
);
