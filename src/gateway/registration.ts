import { arch, platform } from "node:process";
import { findAnchorBinary } from "../anchor/binary/find.js";
import { probeCgroup, probeLimits } from "../anchor/inspect/cgroup-probe.js";
import { PROTOCOL } from "../anchor/protocol/messages.js";
import { SerialQueue } from "../async/serial-queue.js";
import { StateUnusable } from "../errors.js";
import type { GatewayCapabilities, NewGateway } from "../model/gateway.js";
import type { Store } from "../store/store.js";

type RegistrationStore = Pick<Store, "registerGateway" | "heartbeatGateway" | "retireGateway" | "generation">;

/** A gateway's row in the store: there from its announcement to its good-bye, one statement at a time. */
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

  /** Rejects when the gateway of another host or directory goes by the same id. */
  async register(): Promise<void> {
    const { generation } = this.#store;
    if (await this.#store.registerGateway(this.#gateway)) {
      this.#registeredGeneration = generation;
      return;
    }
    const { instanceId } = this.#gateway;
    throw new StateUnusable(
      instanceId,
      `gateway ${instanceId} is heard of from another host or directory, so this state directory seems to be a copy of that one; nothing was started, because each would take the other's runs for its own. In a copy, remove the files gateway-id and state-id. If the directory has moved here, try again half a minute after the other has stopped.`,
    );
  }

  /** From now on other gateways reach it there. */
  setAddress(peering: Pick<NewGateway, "address" | "peerKey">): Promise<void> {
    this.#gateway = { ...this.#gateway, ...peering };
    this.#registeredGeneration = null;
    return this.#enqueue(() => this.register());
  }

  /**
   * It is still there. Announced again when the store has forgotten it, or may know it as it once was, because an older
   * one took its place.
   */
  heartbeat(): Promise<void> {
    return this.#enqueue(async () => {
      if (this.#retired) return;
      const heard = await this.#store.heartbeatGateway(this.#gateway.instanceId);
      if (!heard || this.#registeredGeneration !== this.#store.generation) await this.register();
    });
  }

  /** Records the stop, if the store can be written; otherwise the missing heartbeat shows it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#retired = true;
    await this.#enqueue(() => this.#store.retireGateway(this.#gateway.instanceId)).catch(() => undefined);
  }

  /** Not two at once: a beat that overtook the good-bye would bring the row back. */
  #enqueue<Result>(work: () => Promise<Result>): Promise<Result> {
    return this.#writes.run(work);
  }
}

/** The capabilities of this host. A feature that cannot be detected is not offered. */
export async function detectCapabilities(): Promise<GatewayCapabilities> {
  const cgroup = await probeCgroup().catch(() => null);
  const usable = cgroup?.state === "usable";
  const places = usable ? await probeLimits(findAnchorBinary()).catch(() => []) : [];
  return {
    platform,
    arch,
    tier: usable ? "cgroup" : "subreaper",
    pty: true,
    limits: places.filter(({ how }) => how === "v1" || how === "v2").map(({ controller }) => controller),
    anchorProtocol: PROTOCOL,
  };
}
