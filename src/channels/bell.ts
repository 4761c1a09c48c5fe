import type { Notification } from "../model/outbox.js";
import { DeliveryFailed } from "../tasks/delivery-attempt.js";
import type { Channel } from "./channel.js";

/** Rings the bell of the terminals that are attached now. */
export class Bell {
  readonly #listeners = new Set<(notification: Notification) => boolean>();

  /** `listener` returns false if its terminal is closing and did not ring. */
  listen(listener: (notification: Notification) => boolean): Disposable {
    // A new function, because the same listener may be added twice.
    const own = (notification: Notification): boolean => listener(notification);
    this.#listeners.add(own);
    return { [Symbol.dispose]: () => this.#listeners.delete(own) };
  }

  /** Returns the number of terminals that rang. */
  ring(notification: Notification): number {
    return [...this.#listeners].filter((listener) => listener(notification)).length;
  }
}

/** The delivery fails if no terminal rang. */
export function bellChannel(bell: Bell): Channel {
  return {
    deliver: async (notification) => {
      const count = bell.ring(notification);
      if (count === 0) throw new DeliveryFailed("no terminal is attached");
      return count === 1 ? "1 terminal" : `${count} terminals`;
    },
  };
}
