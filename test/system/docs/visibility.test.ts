import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { visibilityMatrix, RELATIONS, type VisibilityCase } from "../../support/visibility-matrix.js";

/** Which cases a column of the page's table is about. */
const COLUMNS: readonly ((each: VisibilityCase) => boolean)[] = [
  ({ visibility, sandboxed }) => visibility === "self" && !sandboxed,
  ({ visibility, sandboxed }) => visibility === "tree" && !sandboxed,
  ({ visibility, sandboxed }) => visibility === "agent" && !sandboxed,
  ({ visibility, sandboxed, a2a }) => visibility === "all" && !sandboxed && !a2a,
  ({ visibility, sandboxed, a2a }) => visibility === "all" && !sandboxed && a2a,
  ({ visibility, sandboxed }) => visibility !== "self" && sandboxed,
];

test.each(RELATIONS)("docs/concepts/visibility.md says of %s what is so", async (relation) => {
  const page = await readFile("docs/concepts/visibility.md", "utf8");
  const row = page.split("\n").find((line) => line.startsWith(`| ${relation} |`)) ?? "";
  const words = row
    .split("|")
    .slice(2, -1)
    .map((word) => word.trim());
  expect(words).toHaveLength(COLUMNS.length);
  for (const [at, isAbout] of COLUMNS.entries()) {
    const cases = visibilityMatrix.filter((each) => each.relation === relation && isAbout(each));
    expect(new Set(cases.map(({ visible }) => (visible ? "yes" : "no")))).toEqual(new Set([words[at]]));
  }
});
