import { expect, test } from "vitest";
import { SanitizedTextStream } from "../../../../src/cli/acp/view/terminal-writer.js";
import { sanitizeText } from "../../../../src/text/sanitize.js";

const TEXTS = [
  "plain\r\ntext\r\n",
  "\u001b[1;31mred\u001b[0m and \u001b]0;title\u0007 more",
  "a 🌱 and\ta tab, \u001b(B\u001b7 \u001b[?25l!",
  "\u001b[31m\r\n\u001b[0m\r\n",
];

test.each(TEXTS)("%j is shown the same wherever it is split", (text) => {
  for (let cut = 0; cut <= text.length; cut++) {
    const stream = new SanitizedTextStream();
    const shown = stream.push(text.slice(0, cut)) + stream.push(text.slice(cut)) + stream.flush();
    expect({ cut, shown }).toEqual({ cut, shown: sanitizeText(text) });
  }
});

test("an incomplete sequence is shown at the end without its escape character", () => {
  const stream = new SanitizedTextStream();
  expect(stream.push("a\u001b[31")).toBe("a");
  expect(stream.flush()).toBe("31");
  expect(stream.push("\r")).toBe("");
  expect(stream.flush()).toBe("␍");
});

test("a sequence without an end is not buffered", () => {
  const stream = new SanitizedTextStream();
  expect(stream.push(`\u001b]${"x".repeat(1_000)}`)).toContain("xxx");
});
