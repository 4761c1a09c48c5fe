import { expect, test } from "vitest";
import { formatDuration, formatSize } from "../../src/text/format-units.js";

test.each([
  [0, "0ms"],
  [40, "40ms"],
  [999, "999ms"],
  [1_000, "1s"],
  [2_540, "2.5s"],
  [9_999, "9.9s"],
  [59_999, "59s"],
  [60_000, "1m"],
  [90_000, "1m30s"],
  [3_600_000, "1h"],
  [5_430_000, "1h30m"],
  [90_000_000, "1d1h"],
])("%i ms reads %s", (ms, text) => {
  expect(formatDuration(ms)).toBe(text);
});

test.each([
  [0, "0 bytes"],
  [1_023, "1023 bytes"],
  [1_024, "1 KiB"],
  [1_536, "1.5 KiB"],
  [8_388_608, "8 MiB"],
  [200 * 1024 ** 2, "200 MiB"],
  [5 * 1024 ** 5, "5120 TiB"],
])("%i bytes read %s", (bytes, text) => {
  expect(formatSize(bytes)).toBe(text);
});
