import type { ChannelEntry } from "../config/channels.js";
import { InboxFull, SessionClosed } from "../errors.js";
import type { Notification, SessionTarget } from "../model/outbox.js";
import type { SessionHistory } from "../sessions/messages-and-inbox.js";
import { type Deliver, DeliveryFailed, type DeliveryReceipt } from "../tasks/delivery-attempt.js";
import { type Bell, bellChannel } from "./bell.js";
import type { Channel } from "./channel.js";
import { commandChannel, type Spawner } from "./command.js";
import { desktopChannel } from "./desktop.js";
import { slackChannel } from "./slack.js";
import { telegramChannel } from "./telegram.js";
import { webhookChannel } from "./webhook.js";

/** The actor of notifications in a session's history. */
export const INBOX_ACTOR = "tasks";

/** Delivers the end of a task to a session's agent by waking it. */
type Wake = (target: SessionTarget, notification: Notification) => Promise<DeliveryReceipt>;

/** Delivers notifications to channels and to the inboxes of sessions. Without `wake`, no agent is woken. */
export function createDeliver(
  channels: ReadonlyMap<string, Channel>,
  history: Pick<SessionHistory, "send">,
  wake?: Wake,
): Deliver {
  return async (target, notification, signal) => {
    signal.throwIfAborted();
    const wakes = target.kind === "session" && target.wake === true && notification.kind === "terminal";
    if (wakes && wake !== undefined) return wake(target, notification);
    if (target.kind === "session") return putIntoInbox(history, target.sessionId, notification);
    const channel = channels.get(target.channel);
    // Not permanent: the config of another gateway, or of the next one here, may have the channel.
    if (channel === undefined)
      throw new DeliveryFailed(`there is no channel ${target.channel} in the config`);
    return {
      status: "delivered",
      receipt: await channel.deliver(notification, target.address, signal),
    };
  };
}

/** Idempotent: a repeated call stores nothing, and returns whether the session's agent has read the notification. */
async function putIntoInbox(
  history: Pick<SessionHistory, "send">,
  sessionId: string,
  { id, text }: Notification,
): Promise<DeliveryReceipt> {
  try {
    const message = { text, actor: INBOX_ACTOR, cause: id, deliver: "next-turn" } as const;
    const { deliveredAt } = await history.send(sessionId, "system", message);
    return deliveredAt === null ? { status: "session_queued" } : { status: "delivered", receipt: sessionId };
  } catch (error) {
    if (error instanceof SessionClosed) return { status: "parent_missing" };
    // Not permanent: the inbox may have room at the next attempt.
    if (error instanceof InboxFull) throw new DeliveryFailed(error.message, { cause: error });
    throw error;
  }
}

interface ChannelDeps {
  /** For channels that are programs. */
  readonly supervisor: Spawner;
  readonly bell: Bell;
}

/** The channels of the config, by name. Nothing is connected or resolved before the first delivery. */
export function openChannels(
  entries: Readonly<Record<string, ChannelEntry>>,
  deps: ChannelDeps,
): ReadonlyMap<string, Channel> {
  return new Map(Object.entries(entries).map(([name, entry]) => [name, createChannel(name, entry, deps)]));
}

function createChannel(name: string, entry: ChannelEntry, { supervisor, bell }: ChannelDeps): Channel {
  switch (entry.kind) {
    case "webhook":
      return webhookChannel(entry);
    case "telegram":
      return telegramChannel(entry);
    case "slack":
      return slackChannel(entry);
    case "command":
      return commandChannel(name, entry, supervisor);
    case "desktop":
      return desktopChannel(name, entry, supervisor);
    case "bell":
      return bellChannel(bell);
  }
}
