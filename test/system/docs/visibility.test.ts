import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { visibilityMatrix, RELATIONS, type VisibilityCase } from "../../support/visibility-matrix.js";

/** The cases that each column of the table describes. */
const COLUMNS: readonly ((each: VisibilityCase) => boolean)[] = [
  ({ visibility, sandboxed }) => visibility === "self" && !sandboxed,
  ({ visibility, sandboxed }) => visibility === "tree" && !sandboxed,
  ({ visibility, sandboxed }) => visibility === "agent" && !sandboxed,
  ({ visibility, sandboxed, a2a }) => visibility === "all" && !sandboxed && !a2a,
  ({ visibility, sandboxed, a2a }) => visibility === "all" && !sandboxed && a2a,
  ({ visibility, sandboxed }) => visibility !== "self" && sandboxed,
];

test.each(RELATIONS)("docs/concepts/visibility.md has the right answers for %s", async (relation) => {
  const page = await readFile("docs/concepts/visibility.md", "utf8");
  const row = page.split("\n").find((line) => line.startsWith(`| ${relation} |`)) ?? "";
  const words = row
    .split("|")
    .slice(2, -1)
    .map((word) => word.trim());
  expect(words).toHaveLength(COLUMNS.length);
  for (const [at, describes] of COLUMNS.entries()) {
    const cases = visibilityMatrix.filter((each) => each.relation === relation && describes(each));
    expect(new Set(cases.map(({ visible }) => (visible ? "yes" : "no")))).toEqual(new Set([words[at]]));
  }
});
