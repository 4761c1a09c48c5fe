import fc from "fast-check";
import { expect, test } from "vitest";
import { noOutputLimit } from "../../src/agents/one-shot-command.js";

const s = 1_000;

test.each([
  // profile, timeout, limit
  ["fresh", 300 * s, 240 * s], // 0.8 of it
  ["fresh", 1_800 * s, 600 * s], // capped
  ["fresh", 220 * s, 180 * s], // raised to the minimum
  ["fresh", 180 * s, 179 * s], // but always below the timeout
  ["fresh", 60 * s, 59 * s],
  ["resume", 300 * s, 90 * s], // 0.3 of it
  ["resume", 1_800 * s, 180 * s],
  ["resume", 100 * s, 60 * s],
  ["resume", 30 * s, 29 * s],
  ["fresh", 2 * s, 1 * s], // the floor
  ["fresh", 1.5 * s, 1 * s],
  ["resume", 1, 1 * s],
  ["fresh", 0, 600 * s], // no timeout: the longest
  ["resume", 0, 180 * s],
] as const)("%s with a timeout of %i ms may be silent for %i ms", (profile, timeoutMs, limit) => {
  expect(noOutputLimit(profile, timeoutMs)).toBe(limit);
});

test("a custom profile works the same way", () => {
  expect(noOutputLimit({ ratio: 0.5, minMs: 2 * s, maxMs: 10 * s }, 12 * s)).toBe(6 * s);
  expect(noOutputLimit({ ratio: 0.3333, minMs: 0, maxMs: 10 * s }, 10 * s)).toBe(3_333);
  expect(noOutputLimit({ ratio: 0.5, minMs: 0, maxMs: 0 }, 12 * s)).toBe(1 * s);
});

test("the limit is whole, at least a second, and below any timeout that leaves room", () => {
  fc.assert(
    fc.property(
      fc.constantFrom("fresh", "resume"),
      fc.integer({ min: 1, max: 10 ** 9 }),
      (profile, timeoutMs) => {
        const limit = noOutputLimit(profile, timeoutMs);
        expect(Number.isInteger(limit)).toBe(true);
        expect(limit).toBeGreaterThanOrEqual(1 * s);
        if (timeoutMs > 2 * s) expect(limit).toBeLessThan(timeoutMs);
      },
    ),
  );
});
