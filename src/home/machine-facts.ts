import { readFileSync } from "node:fs";
import { readlink } from "node:fs/promises";
import { uptime } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { readOwnFile, writeOwnFile } from "./own-file.js";

/** Ids of the machine, its boot and its pid namespace, by operating system. Each rejects if it cannot be read. */
interface MachineFacts {
  /** A text that no other machine has; null: the system has none. */
  readHostSeed(): Promise<string | null>;
  /** A system that does not number its boots needs the state directory; `record`: it may be written. */
  readBootId(home: string, record: boolean): Promise<string>;
  readPidNamespace(): Promise<string>;
  /** Changes when device numbers do. */
  readDeviceEpoch(): Promise<string>;
}

const BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id";

const linux: MachineFacts = {
  async readHostSeed() {
    const id = await readText("/etc/machine-id").catch(() => "");
    // Empty in a fresh image, `uninitialized` during the first boot.
    return /^[0-9a-f]{32}$/.test(id) ? id : null;
  },
  readBootId: () => readText(BOOT_ID_FILE),
  readPidNamespace: () => readlink("/proc/self/ns/pid"),
  readDeviceEpoch: () => readText(BOOT_ID_FILE),
};

/** A Mac has one pid namespace. */
const darwin: MachineFacts = {
  readHostSeed: async () =>
    /"IOPlatformUUID" = "([0-9A-F-]{36})"/.exec(
      await query("/usr/sbin/ioreg", ["-rd1", "-c", "IOPlatformExpertDevice"]),
    )?.[1] ?? null,
  readBootId: async () => (await query("/usr/sbin/sysctl", ["-n", "kern.bootsessionuuid"])).trim(),
  readPidNamespace: async () => "darwin",
  readDeviceEpoch: async () => (await query("/usr/sbin/sysctl", ["-n", "kern.bootsessionuuid"])).trim(),
};

const PREFETCH_KEY = String.raw`HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters`;

/** Pids are those of the whole machine, and the serial numbers of volumes do not change. */
const windows: MachineFacts = {
  readHostSeed: () => readRegistryValue(String.raw`HKLM\SOFTWARE\Microsoft\Cryptography`, "MachineGuid"),
  async readBootId(home, record) {
    const number = await readRegistryValue(PREFETCH_KEY, "BootId");
    return number === null ? readEstimatedBootId(home, record) : `boot-${Number(number)}`;
  },
  readPidNamespace: async () => "windows",
  readDeviceEpoch: async () => "",
};

export function machineFacts(platform: NodeJS.Platform = process.platform): MachineFacts {
  if (platform === "win32") return windows;
  return platform === "darwin" ? darwin : linux;
}

async function readText(path: string): Promise<string> {
  // Synchronous: the start of the thread pool takes longer than reading a file of a few bytes.
  return readFileSync(path, "utf8").trim();
}

/** These facts do not change while a process lives. */
const answers = new Map<string, Promise<string>>();

function query(program: string, args: readonly string[]): Promise<string> {
  const key = JSON.stringify([program, args]);
  const known = answers.get(key);
  if (known !== undefined) return known;
  const asked = runProgram(program, args);
  answers.set(key, asked);
  // A failure may be temporary: the next caller executes the program again.
  asked.catch(() => answers.delete(key));
  return asked;
}

async function runProgram(program: string, args: readonly string[]): Promise<string> {
  // Loaded here: commands on Linux do not need it.
  const { execFile } = await import("node:child_process");
  return (await promisify(execFile)(program, args, { windowsHide: true })).stdout;
}

/** Null: there is no such value. Rejects if the registry cannot be read: an estimated boot id would look like another boot. */
async function readRegistryValue(key: string, name: string): Promise<string | null> {
  const reg = join(process.env["SystemRoot"] ?? String.raw`C:\Windows`, "System32", "reg.exe");
  const text = await query(reg, ["query", key, "/v", name]).catch((error: unknown) => {
    if ((error as { readonly code?: unknown }).code === REG_NOT_FOUND) return "";
    throw error;
  });
  return parseRegistryValue(text, name);
}

const REG_NOT_FOUND = 1;

/** From `    MachineGuid    REG_SZ    17041a39-…`. */
export function parseRegistryValue(text: string, name: string): string | null {
  for (const line of text.split(/\r?\n/)) {
    const [found, type = "", value = ""] = line.trim().split(/\s{2,}|\t/);
    if (found === name && type.startsWith("REG_")) return value;
  }
  return null;
}

/** A moment of a boot. Two moments belong to one boot if the wall clock and the uptime went on by the same time. */
export interface BootMoment {
  readonly id: string;
  readonly wallMs: number;
  readonly uptimeMs: number;
}

/** The wall clock is corrected in small steps. */
const SAME_BOOT_MS = 60_000;

/** The boot id of a moment, given the last one that was recorded. */
export function estimateBootId(last: BootMoment | null, wallMs: number, uptimeMs: number): string {
  // In minutes, so that two processes that estimate at the same time get the same id.
  const fresh = `since-${Math.round((wallMs - uptimeMs) / 60_000)}`;
  if (last === null || uptimeMs < last.uptimeMs) return fresh;
  const drift = wallMs - last.wallMs - (uptimeMs - last.uptimeMs);
  return Math.abs(drift) < SAME_BOOT_MS ? last.id : fresh;
}

/** For a Windows that does not count its boots (Wine). A moment of the last known boot is in the file `boot`. */
async function readEstimatedBootId(home: string, record: boolean): Promise<string> {
  const path = join(home, "boot");
  const text = await readOwnFile(path).catch(() => "");
  const last = text === "" ? null : (JSON.parse(text) as BootMoment);
  const wallMs = Date.now();
  const uptimeMs = uptime() * 1000;
  const id = estimateBootId(last, wallMs, uptimeMs);
  if (record && last?.id !== id)
    writeOwnFile(path, JSON.stringify({ id, wallMs, uptimeMs } satisfies BootMoment));
  return id;
}
