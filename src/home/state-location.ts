import { randomUUID } from "node:crypto";
import { type BigIntStats, statSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { machineFacts } from "./machine-facts.js";
import { readOwnFileSync } from "./own-file.js";
import { renameFile } from "./rename-file.js";
import { storePathOf } from "./state-directory.js";

/** The location of a state directory when it was last opened for writing. Stored in the directory. */
interface StateLocation {
  readonly path: string;
  readonly device: string;
  readonly inode: string;
  /** When the directory was created, in nanoseconds; "0": unknown. A copy has another time. */
  readonly birth: string;
  /** Device numbers mean nothing in another boot. */
  readonly bootId: string;
}

const LOCATION_FILE = "state-location";

/**
 * `moved`: another directory than the recorded one, but safe to use: the recorded one is gone, and the store in this
 * directory has no open run.
 */
export type StateProvenance =
  | { readonly kind: "own" | "moved"; readonly recorded: StateLocation | null }
  | { readonly kind: "copy"; readonly recorded: StateLocation; readonly originalThere: boolean };

/** Compares the directory with its recorded location. */
export async function classifyLocation(
  home: string,
  hasNoOpenRuns: (storePath: string) => Promise<boolean>,
): Promise<StateProvenance> {
  const recorded = await readLocation(home);
  if (recorded === null) return { kind: "own", recorded };
  const here = await observeLocation(home);
  if (here === null || isSameLocation(recorded, here)) return { kind: "own", recorded };
  const there = await observeLocation(recorded.path);
  const originalThere = there !== null && isSameLocation(recorded, there);
  if (!originalThere && (await hasNoOpenRuns(storePathOf(home)))) return { kind: "moved", recorded };
  return { kind: "copy", recorded, originalThere };
}

/**
 * True if two locations are one directory. Within a boot a bind mount and a rename keep device and inode; a snapshot has
 * another device. After a reboot only the time of creation is certain to be the same, if it is known.
 */
function isSameLocation(one: StateLocation, other: StateLocation): boolean {
  const dated = one.birth !== "0" && other.birth !== "0";
  if (dated && one.birth !== other.birth) return false;
  if (one.bootId !== other.bootId) return dated || one.inode === other.inode;
  return one.inode === other.inode && one.device === other.device;
}

/** Records the location: with the state id, when the directory has moved, and once in each boot. */
export async function recordLocation(home: string, always = false): Promise<void> {
  const [recorded, here] = await Promise.all([readLocation(home), observeLocation(home)]);
  if (here === null) return;
  const same = recorded !== null && isSameLocation(recorded, here) && recorded.bootId === here.bootId;
  if (same && !always && (recorded.path === here.path || (await leadsTo(recorded.path, here)))) return;
  const draft = join(home, `${LOCATION_FILE}.${randomUUID()}`);
  try {
    await writeFile(draft, `${JSON.stringify(here)}\n`, { mode: 0o600, flag: "wx" });
    await renameFile(draft, join(home, LOCATION_FILE));
  } finally {
    await rm(draft, { force: true });
  }
}

async function leadsTo(path: string, here: StateLocation): Promise<boolean> {
  const there = await observeLocation(path);
  return there !== null && isSameLocation(there, here);
}

/** Synchronous, because every command reads this small file: starting the thread pool takes longer. */
async function readLocation(home: string): Promise<StateLocation | null> {
  try {
    const facts = JSON.parse(readOwnFileSync(join(home, LOCATION_FILE))) as Record<
      keyof StateLocation,
      unknown
    >;
    const known = [facts.path, facts.device, facts.inode, facts.birth, facts.bootId];
    return known.every((fact) => typeof fact === "string") ? (facts as StateLocation) : null;
  } catch {
    // A missing file, or a damaged one: the next writer replaces it.
    return null;
  }
}

async function observeLocation(path: string): Promise<StateLocation | null> {
  let found: BigIntStats | undefined;
  try {
    found = statSync(path, { bigint: true, throwIfNoEntry: false });
  } catch {
    return null;
  }
  if (found === undefined) return null;
  const bootId = await machineFacts()
    .readDeviceEpoch()
    .catch(() => "");
  const { dev, ino, birthtimeNs, mtimeNs } = found;
  // A Windows file system without times of creation (Wine) shows the last change instead.
  const isDated = birthtimeNs > 0n && (process.platform !== "win32" || birthtimeNs !== mtimeNs);
  return {
    path,
    device: String(dev),
    inode: String(ino),
    birth: isDated ? String(birthtimeNs) : "0",
    bootId,
  };
}
