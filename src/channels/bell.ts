import { DeliveryFailed, type Notification } from "../tasks/delivery.js";
import type { Channel } from "./channel.js";

/** Rung for everybody who listens: terminals that are attached now. */
export class Bell {
  readonly #listeners = new Set<(notification: Notification) => boolean>();

  /** `listener`: whether it has heard it; one that is about to leave has not. */
  listen(listener: (notification: Notification) => boolean): Disposable {
    // One of its own, should the same function listen twice.
    const own = (notification: Notification): boolean => listener(notification);
    this.#listeners.add(own);
    return { [Symbol.dispose]: () => this.#listeners.delete(own) };
  }

  /** How many have heard it. */
  ring(notification: Notification): number {
    return [...this.#listeners].filter((listener) => listener(notification)).length;
  }
}

/** What nobody heard is not delivered. */
export function bellChannel(bell: Bell): Channel {
  return {
    deliver: async (notification) => {
      const heard = bell.ring(notification);
      if (heard === 0) throw new DeliveryFailed("no terminal is attached that could ring");
      return heard === 1 ? "1 terminal" : `${heard} terminals`;
    },
  };
}
