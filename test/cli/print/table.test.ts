import fc from "fast-check";
import { expect, test } from "vitest";
import { formatTable } from "../../../src/cli/print/table.js";
import { displayWidth, truncateToWidth } from "../../../src/text/display-width.js";

test("columns line up, and the last one is not padded", () => {
  expect(formatTable(["A", "LONG", "C"], [["aaa", "b", "c"]], null)).toEqual([
    "A    LONG  C",
    "aaa  b     c",
  ]);
});

test("wide characters count double, combining ones not at all", () => {
  expect(displayWidth("日本")).toBe(4);
  expect(displayWidth("e\u0301")).toBe(1);
  expect(displayWidth("🙂")).toBe(2);
  expect(formatTable(["日本", "x"], [["abcde", "y"]], null)).toEqual(["日本   x", "abcde  y"]);
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
      for (const line of formatTable(["A", "B", "C"], rows, width))
        expect(displayWidth(line)).toBeLessThanOrEqual(width);
    }),
  );
});

test("a narrow table drops optional columns, the lowest number first, before it cuts the last column", () => {
  const columns = ["RUN", { name: "CPU", optional: 1 }, { name: "TIME", optional: 2 }, "COMMAND"];
  const rows = [["run_000000000000", "1.2s", "10m", "npm run dev -- --port 3000"]];
  const heads = [80, 60, 50, 30].map((width) => formatTable(columns, rows, width)[0]);
  expect(heads.map((head) => head?.split(/ +/))).toEqual([
    ["RUN", "CPU", "TIME", "COMMAND"],
    ["RUN", "CPU", "TIME", "COMMAND"],
    ["RUN", "TIME", "COMMAND"],
    ["RUN", "COMMAND"],
  ]);
});
