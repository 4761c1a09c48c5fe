import { InboxFull, SessionClosed } from "../errors.js";
import type { SessionHistory } from "../sessions/history.js";
import { type Deliverer, DeliveryFailed } from "../tasks/delivery.js";
import type { Channel } from "./channel.js";

/**
 * Where a session finds what it is to be told at its next turn. Under one id a text is put once, however often it is tried;
 * trying again says whether the session's agent has taken it by now.
 */
export interface SessionInbox {
  put(sessionId: string, id: string, text: string): Promise<"queued" | "taken" | "missing">;
}

/** Who says it, in the session's history. */
const INBOX_ACTOR = "tasks";

export function createSessionInbox(history: Pick<SessionHistory, "send">): SessionInbox {
  return {
    put: async (sessionId, id, text) => {
      try {
        const saying = { text, actor: INBOX_ACTOR, cause: id, deliver: "next-turn" } as const;
        const kept = await history.send(sessionId, "system", saying);
        return kept.deliveredAt === null ? "queued" : "taken";
      } catch (error) {
        if (error instanceof SessionClosed) return "missing";
        // It may have room at the next try.
        if (error instanceof InboxFull) throw new DeliveryFailed(error.message, { cause: error });
        throw error;
      }
    },
  };
}

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
