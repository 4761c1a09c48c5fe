import { createPalette } from "../../../../src/cli/print/colours-and-progress.js";
import { expect, test } from "vitest";
import { changedLines, diffLines } from "../../../../src/cli/acp/view/diff-and-plan-lines.js";

const plainPalette = createPalette(false);
const diff = (path: string, oldText: string | null, newText: string) => ({
  type: "diff",
  path,
  oldText,
  newText,
});

test("only the lines between the common beginning and end are changed", () => {
  expect(changedLines("a\nb\nc\n", "a\nx\ny\nc\n")).toEqual({ removed: ["b"], added: ["x", "y"] });
  expect(changedLines("", "a\n")).toEqual({ removed: [], added: ["a"] });
  expect(changedLines("a\na\n", "a\n")).toEqual({ removed: ["a"], added: [] });
  expect(changedLines("same", "same")).toEqual({ removed: [], added: [] });
});

test("a diff shows path, counts and changed lines, without control characters", () => {
  const lines = diffLines([diff("src/a\u001b[2J.ts", "one\n  two\n", "one\n  three\n")], 80, plainPalette);
  expect(lines).toEqual(["  src/a.ts +1 -1", "  -   two", "  +   three"]);
});

test("long diffs are cut, and other content is ignored", () => {
  const long = Array.from({ length: 20 }, (_, at) => `line ${at}`).join("\n");
  const lines = diffLines(
    [diff("a", null, long), { type: "content" }, null, { type: "diff" }],
    80,
    plainPalette,
  );
  expect(lines).toHaveLength(14);
  expect(lines.at(-1)).toBe("  … 8 more lines");
  expect(diffLines("no list", 80, plainPalette)).toEqual([]);
});
