import { constants } from "node:os";
import { expect, test } from "vitest";
import { signalName, signalNumber } from "../../src/text/signal-name.js";

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
