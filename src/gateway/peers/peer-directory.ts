import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { GatewayRecord } from "../../model/gateway.js";
import type { GatewayStore } from "../../store/gateways/store.js";
import { readOwnFile, writeOwnFile } from "../../home/own-file.js";

/**
 * The last known addresses and keys of the other gateways of a shared store, kept in a file in the state directory, so
 * that a run of another host can be stopped while the store cannot be read.
 */
export class PeerDirectory {
  readonly #path: string;
  readonly #instanceId: string;
  #known = new Map<string, GatewayRecord>();

  constructor(home: string, instanceId: string) {
    this.#path = join(home, "peers.json");
    this.#instanceId = instanceId;
  }

  /** Loads the file of an earlier gateway. A damaged file counts as missing. */
  async load(): Promise<void> {
    try {
      const kept = JSON.parse(await readOwnFile(this.#path)) as readonly GatewayRecord[];
      this.#known = new Map(kept.map((gateway) => [gateway.instanceId, gateway]));
    } catch {
      this.#known = new Map();
    }
  }

  get(instanceId: string): GatewayRecord | null {
    return this.#known.get(instanceId) ?? null;
  }

  /** Gateways that listen for other gateways and have not stopped. */
  reachable(): readonly GatewayRecord[] {
    return [...this.#known.values()].filter(
      ({ address, peerKey, stoppedAt }) => address !== null && peerKey !== null && stoppedAt === null,
    );
  }

  /** Reads keys and writes the file only when a gateway was added, removed or restarted. */
  async refresh(store: Pick<GatewayStore, "listGateways" | "getGateway">): Promise<void> {
    const others = (await store.listGateways()).filter(({ instanceId }) => instanceId !== this.#instanceId);
    const next = new Map<string, GatewayRecord>();
    let changed = others.length !== this.#known.size;
    for (const facts of others) {
      const before = this.#known.get(facts.instanceId);
      const same =
        before !== undefined &&
        before.startedAt === facts.startedAt &&
        before.stoppedAt === facts.stoppedAt &&
        JSON.stringify(before.address) === JSON.stringify(facts.address);
      const record = same ? before : await store.getGateway(facts.instanceId);
      if (record !== null) next.set(record.instanceId, record);
      changed ||= !same;
    }
    this.#known = next;
    if (changed) await this.#write();
  }

  async #write(): Promise<void> {
    const draft = `${this.#path}.${process.pid}`;
    try {
      writeOwnFile(draft, JSON.stringify([...this.#known.values()]));
      await rename(draft, this.#path);
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    }
  }
}
