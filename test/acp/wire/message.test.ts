import { describe, expect, test } from "vitest";
import { parseRpcMessage, whyTooComplex } from "../../../src/acp/wire/message.js";

const MIB = 1024 * 1024;

test.each([
  ["brackets in a text", JSON.stringify({ a: "[{".repeat(100_000) })],
  ["quotes and backslashes in a text", JSON.stringify({ a: '"\\"[\\\\{"'.repeat(100_000), "[": "\\" })],
  ["commas in a text", JSON.stringify([",".repeat(300_000)])],
  ["a number without end", `[${"1".repeat(MIB)}]`],
  ["as deep as is allowed, again and again", `[${`${"[".repeat(499)}${"]".repeat(499)},`.repeat(300)}0]`],
])("%s is read", (_, line) => {
  expect(whyTooComplex(Buffer.from(line))).toBeNull();
});

test("braces and brackets count, and those inside strings do not", () => {
  const nested = (depth: number): Buffer => Buffer.from(`${'{"]}\\"":'.repeat(depth)}0${"}".repeat(depth)}`);
  expect(whyTooComplex(nested(500))).toBeNull();
  expect(whyTooComplex(nested(501))).toBe("nested too deeply");
});

describe("JSON that would block the parser is refused by its bytes", () => {
  test.each([
    ["nested", "[".repeat(30 * MIB), "nested too deeply"],
    ["flat", `{"jsonrpc":"2.0","method":"x","params":[${"[],".repeat(10 * MIB)}0]}`, "too many values"],
    [
      "members",
      `{"jsonrpc":"2.0","method":"x","params":{${'"":0,'.repeat(6 * MIB)}"":0}}`,
      "too many values",
    ],
  ])("%s", (_, line, why) => {
    const bytes = Buffer.from(line);
    const before = process.cpuUsage();
    expect(parseRpcMessage(bytes)).toBe(why);
    // Parsing it takes seconds of any machine's time; this, hundredths.
    expect(process.cpuUsage(before).user).toBeLessThan(1_000_000);
  });
});
