import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import {
  type BootMoment,
  estimateBootId,
  machineFacts,
  parseRegistryValue,
} from "../../src/home/machine-facts.js";
import { temporaryDirectory } from "../support/temporary-directory.js";

afterEach(() => void vi.unstubAllEnvs());

test("a value is read from the output of reg query", () => {
  const text =
    "\r\nHKEY_LOCAL_MACHINE\\SOFTWARE\\Microsoft\\Cryptography\r\n    MachineGuid    REG_SZ    17041a39-66c9\r\n    BootId    REG_DWORD    0x1f\r\n\r\n";
  expect(parseRegistryValue(text, "MachineGuid")).toBe("17041a39-66c9");
  expect(Number(parseRegistryValue(text, "BootId"))).toBe(31);
  expect(parseRegistryValue(text, "Machine")).toBeNull();
  expect(parseRegistryValue("ERROR: The system was unable to find the key", "BootId")).toBeNull();
});

test.skipIf(process.platform === "win32")(
  "a boot is only estimated if Windows does not count its boots, not if that cannot be read",
  async () => {
    await using directory = await temporaryDirectory();
    vi.stubEnv("SystemRoot", directory.path);
    const facts = machineFacts("win32");
    const read = (): Promise<string> => facts.readBootId(directory.path, false);
    await expect(read()).rejects.toThrow("ENOENT");
    await expect(facts.readHostSeed()).rejects.toThrow("ENOENT");

    const reg = join(directory.path, "System32/reg.exe");
    await mkdir(join(directory.path, "System32"));
    const write = async (script: string): Promise<void> => {
      await writeFile(reg, `#!/bin/sh\n${script}\n`);
      await chmod(reg, 0o755);
    };
    await write("exit 66");
    await expect(read()).rejects.toThrow("Command failed");
    await write("echo 'ERROR: The system was unable to find the key' >&2; exit 1");
    expect(await read()).toMatch(/^since-/);
    // A failure is not kept, an answer is.
    await write("echo '    BootId    REG_DWORD    0x1f'");
    expect(await read()).toBe("boot-31");
    await write("exit 66");
    expect(await read()).toBe("boot-31");
  },
);

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
