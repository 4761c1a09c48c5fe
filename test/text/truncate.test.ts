import { expect, test } from "vitest";
import { matchesGlob } from "../../src/text/glob.js";
import { firstChars, lastChars, truncate, truncateStart } from "../../src/text/truncate.js";

test("texts are truncated between characters and marked where they were cut", () => {
  expect(truncate("short", 5)).toBe("short");
  expect(truncate("👩‍👩‍👧‍👦 family", 5)).toBe("…");
  expect(truncate("a long text", 7)).toBe("a long…");
  expect(truncateStart("a long text", 5)).toBe("…text");
  expect(firstChars("a😀b", 2)).toBe("a");
  expect(lastChars("a😀b", 2)).toBe("b");
  expect(lastChars("abc", 0)).toBe("");
});

test("a glob whose search would take too long is not compared", () => {
  const text = "a".repeat(16 * 1024);
  expect(matchesGlob(`*${"a".repeat(64)}*`, text)).toBe(true);
  expect(matchesGlob(`*${"a".repeat(65)}*`, text)).toBeNull();
  expect(matchesGlob(`${"a".repeat(1_000)}*`, text)).toBe(true);
});
