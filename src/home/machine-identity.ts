import { createHash, randomUUID } from "node:crypto";
import { readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { readTimeNamespace } from "../async/clock.js";
import { StateUnusable } from "../errors.js";
import type { MachineIdentity } from "../model/process.js";
import { errorMessage } from "./errno.js";
import { machineFacts } from "./machine-facts.js";
import { persistentId } from "./persistent-ids.js";

/**
 * Reads the machine, boot and namespaces of this process, except the fields in `known`. If the system has no machine
 * id, creates one in the state directory.
 */
export async function readMachineIdentity(
  home: string,
  known: Partial<MachineIdentity> = {},
): Promise<MachineIdentity> {
  const facts = machineFacts();
  return {
    hostId: known.hostId ?? (await systemHostId()) ?? (await persistentHostId(home)),
    bootId: known.bootId ?? (await readFact("boot id", () => facts.readBootId(home, true))),
    pidNamespace: known.pidNamespace ?? (await readFact("pid namespace", () => facts.readPidNamespace())),
    timeNamespace:
      known.timeNamespace === undefined ? (readTimeNamespace()?.name ?? null) : known.timeNamespace,
  };
}

/** The same for readers: creates nothing. A missing host id is empty, which equals no other. */
export async function observeMachineIdentity(home: string): Promise<MachineIdentity> {
  const hostId =
    (await systemHostId()) ??
    (await readFile(join(home, "host-id"), "utf8").then(
      (text) => text.trim(),
      () => "",
    ));
  const bootId = await readFact("boot id", () => machineFacts().readBootId(home, false));
  return readMachineIdentity(home, { hostId, bootId });
}

/** Hashed, as machine-id(5) requires: the id itself is confidential. */
async function systemHostId(): Promise<string | null> {
  const id = await readFact("host id", () => machineFacts().readHostSeed());
  return id === null ? null : createHash("sha256").update(`holdfast ${id}`).digest("hex").slice(0, 32);
}

/** Created once, for systems without a machine id. */
export async function persistentHostId(home: string): Promise<string> {
  const path = join(home, "host-id");
  try {
    return await persistentId(home, "host-id", () => randomUUID().replaceAll("-", ""));
  } catch (error) {
    throw new StateUnusable(
      path,
      `this system has no /etc/machine-id, and a host id could not be stored in ${path}; nothing is started, because runs could not be distinguished from those of another machine.`,
      { cause: error },
    );
  }
}

async function readFact<T>(what: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw new StateUnusable(
      what,
      `the ${what} of this system cannot be read (${errorMessage(error)}); nothing is started, because a process could not be distinguished from one of another boot or container.`,
      { cause: error },
    );
  }
}

/** The initial pid namespace has a fixed inode (PROC_PID_INIT_INO); that of a container differs. */
export async function isInitialPidNamespace(): Promise<boolean> {
  // Other systems have one pid namespace.
  if (process.platform !== "linux") return true;
  return (await readlink("/proc/self/ns/pid").catch(() => "")) === "pid:[4026531836]";
}
