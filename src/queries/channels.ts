import type { ResponseOf } from "../api/contract.js";
import { describeChannel } from "../channels/check-channel.js";
import type { ChannelEntries } from "../config/channels.js";

type Channel = ResponseOf<"listChannels">["channels"][number];

/** By name, in the order of the config. */
export function describeChannels(entries: ChannelEntries): Channel[] {
  return Object.entries(entries).map(([name, entry]) => {
    return { name, kind: entry.kind, where: describeChannel(entry) };
  });
}
