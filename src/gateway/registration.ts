import { hostname } from "node:os";
import { arch, platform } from "node:process";
import { findAnchorBinary } from "../anchor/binary.js";
import { probeLimits } from "../anchor/inspect/cgroups-and-limits.js";
import { probeBoundary } from "../anchor/inspect/boundary-and-tier.js";
import { PROTOCOL } from "../anchor/protocol/messages.js";
import { SerialQueue } from "../async/concurrency.js";
import { StateUnusable } from "../errors.js";
import { packageVersion } from "../home/package.js";
import { directoryIdOf } from "../home/state-id.js";
import type { GatewayCapabilities, NewGateway } from "../model/gateway.js";
import type { Store } from "../store/store.js";

type RegistrationStore = Pick<Store, "registerGateway" | "heartbeatGateway" | "retireGateway" | "generation">;

/** A gateway's record in the store, from its registration to its stop. Its writes are serialized. */
export class GatewayRegistration implements AsyncDisposable {
  readonly #store: RegistrationStore;
  #gateway: NewGateway;
  /** The store's generation at the last complete registration. Null: never. */
  #registeredGeneration: number | null = null;
  readonly #writes = new SerialQueue();
  #retired = false;

  constructor(store: RegistrationStore, gateway: NewGateway) {
    this.#store = store;
    this.#gateway = gateway;
  }

  /** Rejects if a gateway of another host or directory has the same id. */
  async register(): Promise<void> {
    const { generation } = this.#store;
    if (await this.#store.registerGateway(this.#gateway)) {
      this.#registeredGeneration = generation;
      return;
    }
    const { instanceId } = this.#gateway;
    throw new StateUnusable(
      instanceId,
      `gateway ${instanceId} is running on another host or in another directory, so this state directory seems to be a copy; nothing was started, because each gateway would control the runs of the other. In a copy, remove the files gateway-id and state-id. If the directory was moved here, retry half a minute after the other gateway has stopped.`,
    );
  }

  /** Publishes the address by which peers reach this gateway. */
  setAddress(peering: Pick<NewGateway, "address" | "peerKey">): Promise<void> {
    this.#gateway = { ...this.#gateway, ...peering };
    this.#registeredGeneration = null;
    return this.#enqueue(() => this.register());
  }

  /** Registers again if the store has no record of this gateway, or was replaced by an older store. */
  heartbeat(): Promise<void> {
    return this.#enqueue(async () => {
      if (this.#retired) return;
      const known = await this.#store.heartbeatGateway(this.#gateway.instanceId);
      if (!known || this.#registeredGeneration !== this.#store.generation) await this.register();
    });
  }

  /** Records the stop, if the store can be written; otherwise the missing heartbeat shows it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#retired = true;
    await this.#enqueue(() => this.#store.retireGateway(this.#gateway.instanceId)).catch(() => undefined);
  }

  /** Serialized: a heartbeat after the retirement would create the record again. */
  #enqueue<Result>(work: () => Promise<Result>): Promise<Result> {
    return this.#writes.run(work);
  }
}

/** The registration of this process, not yet written to the store. */
export async function createRegistration(
  store: RegistrationStore,
  home: string,
  { hostId, bootId, pidNamespace }: Pick<NewGateway, "hostId" | "bootId" | "pidNamespace">,
  gateway: Pick<NewGateway, "instanceId" | "stateId" | "startedAt">,
): Promise<GatewayRegistration> {
  return new GatewayRegistration(store, {
    ...gateway,
    ...{ hostId, bootId, pidNamespace },
    hostName: hostname(),
    directory: await directoryIdOf(home),
    version: packageVersion(),
    capabilities: await detectCapabilities(),
    address: null,
    peerKey: null,
  });
}

/** The capabilities of this host. A feature that cannot be detected is not offered. */
async function detectCapabilities(): Promise<GatewayCapabilities> {
  const tier = await probeBoundary().catch(() => "subreaper" as const);
  const places =
    tier === "cgroup" || tier === "job" ? await probeLimits(findAnchorBinary()).catch(() => []) : [];
  return {
    platform,
    arch,
    tier,
    pty: true,
    limits: places
      .filter(({ how }) => how === "v1" || how === "v2" || how === "job")
      .map(({ controller }) => controller),
    anchorProtocol: PROTOCOL,
  };
}
