import { bellChannel, type Bell } from "./bell.js";
import type { Channel } from "./channel.js";
import { commandChannel } from "./command.js";
import { desktopChannel } from "./desktop.js";
import type { ChannelEntry } from "../config/channels.js";
import type { Spawner } from "./run-program.js";
import { slackChannel } from "./slack.js";
import { telegramChannel } from "./telegram.js";
import { webhookChannel } from "./webhook.js";

export interface ChannelDeps {
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
