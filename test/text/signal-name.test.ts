import { constants } from "node:os";
import { describe, expect, test } from "vitest";
import { BadInput } from "../../src/errors.js";
import { parseSignal, signalName, signalNumber } from "../../src/text/signal-name.js";

test.each([
  [1, "SIGHUP"],
  [2, "SIGINT"],
  [6, "SIGABRT"],
  [9, "SIGKILL"],
  [15, "SIGTERM"],
  [34, "SIG34"],
])("%i is %s, both ways", (number, name) => {
  expect(signalName(number)).toBe(name);
  expect(signalNumber(name)).toBe(number);
});

test("every signal of this system has a name that maps back to it", () => {
  for (const number of Object.values(constants.signals))
    expect(signalNumber(signalName(number))).toBe(number);
});

describe("a signal as users write it", () => {
  test.each(["TERM", "term", "SIGTERM", "sigterm", " 15 ", "15"])("%j is 15", (text) => {
    expect(parseSignal(text)).toBe(15);
  });

  test.each(["", "0", "65", "-9", "TERMINATE", "SIG", "9x", "1.5", "__proto__"])(
    "%j is refused, by name",
    (text) => {
      expect(() => parseSignal(text)).toThrow(BadInput);
      expect(() => parseSignal(text)).toThrow(JSON.stringify(text));
    },
  );
});
