import { StateUnusable } from "../errors.js";
import type { NewGateway } from "../store/gateway-record.js";
import type { Store } from "../store/store.js";

type AnnouncingStore = Pick<Store, "announceGateway" | "beatGateway" | "retireGateway" | "eras">;

/** A gateway's row in the store: there from its announcement to its good-bye, one statement at a time. */
export class Presence implements AsyncDisposable {
  readonly #store: AnnouncingStore;
  #gateway: NewGateway;
  /** The store's, when it was last told all that there is to say. Null: it has not been. */
  #announcedEra: number | null = null;
  #last: Promise<unknown> = Promise.resolve();
  #gone = false;

  constructor(store: AnnouncingStore, gateway: NewGateway) {
    this.#store = store;
    this.#gateway = gateway;
  }

  /** Rejects when the gateway of another host or directory goes by the same id. */
  async announce(): Promise<void> {
    const { eras } = this.#store;
    if (await this.#store.announceGateway(this.#gateway)) {
      this.#announcedEra = eras;
      return;
    }
    const { instanceId } = this.#gateway;
    throw new StateUnusable(
      instanceId,
      `gateway ${instanceId} is heard of from another host or directory, so this state directory seems to be a copy of that one; nothing was started, because each would take the other's runs for its own. In a copy, remove the files gateway-id and state-id. If the directory has moved here, try again half a minute after the other has stopped.`,
    );
  }

  /** From now on other gateways reach it there. */
  reachableAt(peering: Pick<NewGateway, "address" | "peerKey">): Promise<void> {
    this.#gateway = { ...this.#gateway, ...peering };
    this.#announcedEra = null;
    return this.#next(() => this.announce());
  }

  /**
   * It is still there. Announced again when the store has forgotten it, or may know it as it once was, because an older
   * one took its place.
   */
  beat(): Promise<void> {
    return this.#next(async () => {
      if (this.#gone) return;
      const heard = await this.#store.beatGateway(this.#gateway.instanceId);
      if (!heard || this.#announcedEra !== this.#store.eras) await this.announce();
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
