import fc from "fast-check";
import { expect, test } from "vitest";
import { truncateToWidth, formatTable, displayWidth } from "../../../src/cli/print/table.js";

test("columns line up, and the last one is not padded", () => {
  expect(
    formatTable(
      [
        ["A", "LONG", "C"],
        ["aaa", "b", "c"],
      ],
      null,
    ),
  ).toEqual(["A    LONG  C", "aaa  b     c"]);
});

test("wide characters count double, combining ones not at all", () => {
  expect(displayWidth("日本")).toBe(4);
  expect(displayWidth("e\u0301")).toBe(1);
  expect(displayWidth("🙂")).toBe(2);
  expect(
    formatTable(
      [
        ["日本", "x"],
        ["abcde", "y"],
      ],
      null,
    ),
  ).toEqual(["日本   x", "abcde  y"]);
});

test.each([
  ["abcdef", 6, "abcdef"],
  ["abcdef", 5, "abcd…"],
  ["日本語", 5, "日本…"],
  ["日本語", 4, "日…"],
  ["abc", 1, "…"],
  ["abc", 0, ""],
])("%s in %i columns is %s", (text, width, shown) => {
  expect(truncateToWidth(text, width)).toBe(shown);
});

test("no line is wider than the terminal", () => {
  const cell = fc.string({ unit: "grapheme" });
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell, cell)), fc.integer({ min: 1, max: 60 }), (rows, width) => {
      for (const line of formatTable(rows, width)) expect(displayWidth(line)).toBeLessThanOrEqual(width);
    }),
  );
});
