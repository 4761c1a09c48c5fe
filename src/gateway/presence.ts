import { StateUnusable } from "../errors.js";
import type { NewGateway } from "../store/gateway-record.js";
import type { GatewayStore } from "../store/gateway-store.js";

/** A gateway's row in the store: there from its announcement to its good-bye, one statement at a time. */
export class Presence implements AsyncDisposable {
  readonly #store: GatewayStore;
  #gateway: NewGateway;
  #last: Promise<unknown> = Promise.resolve();
  #gone = false;

  constructor(store: GatewayStore, gateway: NewGateway) {
    this.#store = store;
    this.#gateway = gateway;
  }

  /** Rejects when another host's gateway goes by the same id. */
  async announce(): Promise<void> {
    if (await this.#store.announceGateway(this.#gateway)) return;
    const { instanceId } = this.#gateway;
    throw new StateUnusable(
      instanceId,
      `gateway ${instanceId} is heard of from another host, so this state directory seems to be a copy of that one's; nothing was started, because each would take the other's runs for its own. In a copy, remove the files gateway-id and state-id. If the directory has moved here, try again half a minute after the other has stopped.`,
    );
  }

  /** From now on other gateways reach it there. */
  reachableAt(peering: Pick<NewGateway, "address" | "peerKey">): Promise<void> {
    this.#gateway = { ...this.#gateway, ...peering };
    return this.#next(() => this.announce());
  }

  /** It is still there. Announced again when the store has forgotten it, say because an older one took its place. */
  beat(): Promise<void> {
    return this.#next(async () => {
      if (this.#gone || (await this.#store.beatGateway(this.#gateway.instanceId))) return;
      await this.announce();
    });
  }

  /** Says good-bye, if the store can be told: otherwise its silence does. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#gone = true;
    await this.#next(() => this.#store.retireGateway(this.#gateway.instanceId)).catch(() => undefined);
  }

  /** Not two at once: a beat that overtook the good-bye would bring the row back. */
  #next<Result>(work: () => Promise<Result>): Promise<Result> {
    const next = this.#last.then(work);
    this.#last = next.catch(() => undefined);
    return next;
  }
}
