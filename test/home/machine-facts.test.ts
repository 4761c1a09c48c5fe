import { expect, test } from "vitest";
import { type BootMoment, estimateBootId, parseRegistryValue } from "../../src/home/machine-facts.js";

test("a value is read from the output of reg query", () => {
  const text =
    "\r\nHKEY_LOCAL_MACHINE\\SOFTWARE\\Microsoft\\Cryptography\r\n    MachineGuid    REG_SZ    17041a39-66c9\r\n    BootId    REG_DWORD    0x1f\r\n\r\n";
  expect(parseRegistryValue(text, "MachineGuid")).toBe("17041a39-66c9");
  expect(Number(parseRegistryValue(text, "BootId"))).toBe(31);
  expect(parseRegistryValue(text, "Machine")).toBeNull();
  expect(parseRegistryValue("ERROR: The system was unable to find the key", "BootId")).toBeNull();
});

const minute = 60_000;
const last: BootMoment = { id: "since-1", wallMs: 1_000 * minute, uptimeMs: 50 * minute };

test("two moments belong to one boot if the clock and the uptime went on by the same time", () => {
  expect(estimateBootId(last, 1_010 * minute, 60 * minute)).toBe("since-1");
  // The clock was corrected by seconds.
  expect(estimateBootId(last, 1_010 * minute + 30_000, 60 * minute)).toBe("since-1");
});

test("a shorter uptime, or more time than the uptime explains, is another boot", () => {
  expect(estimateBootId(null, 1_000 * minute, 50 * minute)).toBe("since-950");
  expect(estimateBootId(last, 1_010 * minute, 5 * minute)).toBe("since-1005");
  expect(estimateBootId(last, 1_200 * minute, 60 * minute)).toBe("since-1140");
});
