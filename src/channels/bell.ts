import { DeliveryFailed, type Notification } from "../tasks/notification.js";
import type { Channel } from "./channel.js";

/** Rung for everybody who listens: terminals that are attached now. */
export class Bell {
  readonly #listeners = new Set<(notification: Notification) => void>();

  hear(listener: (notification: Notification) => void): Disposable {
    // One of its own, should the same function listen twice.
    const own = (notification: Notification): void => listener(notification);
    this.#listeners.add(own);
    return { [Symbol.dispose]: () => this.#listeners.delete(own) };
  }

  /** How many have heard it. */
  ring(notification: Notification): number {
    for (const listener of this.#listeners) listener(notification);
    return this.#listeners.size;
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
