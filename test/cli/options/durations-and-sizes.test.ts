import fc from "fast-check";
import { expect, test } from "vitest";
import { parseDuration, parseSize } from "../../../src/cli/options/durations-and-sizes.js";
import { formatDuration } from "../../../src/text/format-units.js";
import { BadInput } from "../../../src/errors.js";

test.each([
  ["30m", 1_800_000],
  ["1h30m", 5_400_000],
  ["500ms", 500],
  ["10s", 10_000],
  ["1.5h", 5_400_000],
  ["1d", 86_400_000],
  ["1d2h3m4s5ms", 93_784_005],
  ["1m500ms", 60_500],
  ["10", 10_000],
  ["0.5", 500],
  ["0", 0],
  ["0s", 0],
  ["0.0001s", 1],
])("%s is %i ms", (text, ms) => {
  expect(parseDuration(text)).toBe(ms);
});

test.each([
  "",
  " ",
  "m",
  "30x",
  "30 m",
  "-5s",
  "+5s",
  "1e3",
  "30M",
  "10m1h",
  "5s5s",
  ".5s",
  "1.h",
  "Infinity",
  "0x10",
  "soon",
])("%j is no duration, and the message repeats it", (text) => {
  expect(() => parseDuration(text)).toThrow(BadInput);
  expect(() => parseDuration(text)).toThrow(JSON.stringify(text));
});

test("more than a year is refused", () => {
  expect(parseDuration("365d")).toBe(31_536_000_000);
  expect(() => parseDuration("366d")).toThrow("365 days");
  expect(() => parseDuration("9".repeat(400))).toThrow(BadInput);
});

test("a formatted duration can be parsed again", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 10 ** 10 }), (ms) => {
      expect(parseDuration(formatDuration(ms))).toBeLessThanOrEqual(ms + 1);
    }),
  );
});

test.each([
  ["0", 0],
  ["4096", 4096],
  ["12b", 12],
  ["64K", 65_536],
  ["64KiB", 65_536],
  ["64kB", 64_000],
  ["8M", 8_388_608],
  ["8m", 8_388_608],
  ["1.5GB", 1_500_000_000],
  ["1GiB", 1_073_741_824],
  ["0.5K", 512],
])("%s is %i bytes", (text, bytes) => {
  expect(parseSize(text)).toBe(bytes);
});

test.each(["", "M", "-1", "8 M", "8X", "1e3", "8MM", "constructor", "1__proto__", "9".repeat(30)])(
  "%j is no size, and the message repeats it",
  (text) => {
    expect(() => parseSize(text)).toThrow(BadInput);
    expect(() => parseSize(text)).toThrow(JSON.stringify(text));
  },
);
