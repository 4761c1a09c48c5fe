import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { defaults } from "../../defaults.js";
import { isInstanceLockFree } from "../../home/instance-lock.js";
import type { TableReader } from "./table-io.js";

/** The instances below some state directories: descriptions of the live ones, and the ids of the dead ones. */
export interface InstanceLiveness {
  readonly alive: readonly string[];
  readonly dead: ReadonlySet<string>;
}

export async function findInstances(homes: readonly string[]): Promise<InstanceLiveness> {
  const alive: string[] = [];
  const dead = new Set<string>();
  for (const home of homes) {
    const path = join(home, "instances");
    for (const name of await readdir(path).catch(() => [])) {
      // A lock that cannot be read proves nothing.
      const free = await isInstanceLockFree(join(path, name)).catch(() => false);
      if (free) dead.add(name);
      else alive.push(`supervisor ${name} is at work in ${home}`);
    }
  }
  return { alive, dead };
}

/** The supervisors and gateways that write to a store, as far as the store itself shows. */
export async function findActiveWriters(
  reader: TableReader,
  dead: ReadonlySet<string>,
  bootId: string | null,
): Promise<readonly string[]> {
  const now = await reader.now();
  // The clock of a SQLite store ends with the boot, so leases of another boot cannot be compared.
  const boot = bootId === null ? "" : ` and boot_id = '${bootId}'`;
  const leases = await reader.query(
    `select owner_instance_id as owner, host_id as host, max(lease_expires_at) as until, count(*) as runs
     from runs where state <> 'exited' and lease_expires_at > ${now}${boot} group by owner_instance_id, host_id`,
  );
  const held = leases
    .filter(({ owner }) => !dead.has(String(owner)))
    .map(({ owner, host, until, runs }) => {
      const seconds = Math.ceil((Number(until) - now) / 1_000);
      return `supervisor ${owner} of host ${host} holds ${runs} open runs, for ${seconds} s more at least`;
    });
  const beating = await reader.query(
    `select instance_id as gateway, host_name as host from gateways
     where stopped_at is null and heartbeat_at > ${now - defaults.leaseMs} and heartbeat_at <= ${now}${boot}`,
  );
  const heard = beating
    .filter(({ gateway }) => !dead.has(String(gateway)))
    .map(
      ({ gateway, host }) =>
        `gateway ${gateway} of host ${host} was heard of in the last ${defaults.leaseMs / 1_000} s`,
    );
  const connected = (await reader.connectedInstances()).filter((name) => !dead.has(name));
  return [...held, ...heard, ...connected.map((name) => `supervisor ${name} is connected`)];
}
