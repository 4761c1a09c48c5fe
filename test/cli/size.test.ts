import { expect, test } from "vitest";
import { formatSize, parseSize } from "../../src/cli/size.js";
import { BadInput } from "../../src/errors.js";

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
