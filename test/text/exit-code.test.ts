import { expect, test } from "vitest";
import { formatExitCode } from "../../src/text/exit-code.js";

test("small exit codes are shown as numbers, statuses of Windows in hexadecimal", () => {
  expect([0, 3, 255, 259].map(formatExitCode)).toEqual(["0", "3", "255", "259"]);
  expect(formatExitCode(0xc000_0005)).toBe("0xC0000005");
  expect(formatExitCode(0xffff_ffff)).toBe("0xFFFFFFFF");
});
