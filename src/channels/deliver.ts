import { DeliveryFailed, type Deliverer } from "../tasks/delivery.js";
import type { Channel } from "./channel.js";
import type { SessionInbox } from "./session-inbox.js";

/** Brings a notification to the session or the channel it is for. */
export function createDeliverer(channels: ReadonlyMap<string, Channel>, inbox: SessionInbox): Deliverer {
  return {
    deliver: async (target, notification, signal) => {
      signal.throwIfAborted();
      if (target.kind === "session") {
        const put = await inbox.put(target.sessionId, notification.id, notification.text);
        if (put === "taken") return { status: "delivered", receipt: target.sessionId };
        return { status: put === "queued" ? "session_queued" : "parent_missing" };
      }
      const channel = channels.get(target.channel);
      // Another gateway, or the next one here, may have it: it was there when the work was asked for.
      if (channel === undefined)
        throw new DeliveryFailed(`there is no channel ${target.channel} in the config`);
      return {
        status: "delivered",
        receipt: await channel.deliver(notification, target.address, signal),
      };
    },
  };
}
