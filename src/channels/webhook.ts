import type { Channel } from "./channel.js";
import type { ChannelEntryOf } from "../config/channels.js";
import { notificationPayload } from "./payload.js";
import { isAccepted, postJson, rejectionError } from "./http-post.js";
import { readSecret } from "./secrets.js";
import { parseSigningKey, SECRET_PREFIX, signedHeaders } from "./signature.js";

/** The receiver wants no more of them. Everything else may have changed at the next try. */
const PERMANENT_STATUSES = [410];

/** Standard Webhooks: signed, under an id by which the receiver drops what it has had. */
export function webhookChannel(entry: ChannelEntryOf<"webhook">): Channel {
  return {
    deliver: async (notification, address, signal) => {
      const secrets = await Promise.all(entry.secrets.map((source) => readSecret(source)));
      const body = notificationPayload(notification, address);
      const headers = signedHeaders(
        notification.id,
        Math.floor(Date.now() / 1_000),
        body,
        secrets.map(parseSigningKey),
      );
      const bare = secrets.map((each) => each.slice(SECRET_PREFIX.length));
      const message = {
        url: new URL(entry.url),
        headers,
        body,
        rules: entry,
        secrets: [...secrets, ...bare],
      };
      const answer = await postJson(message, signal);
      if (!isAccepted(answer)) throw rejectionError(message, answer, PERMANENT_STATUSES);
      return String(answer.status);
    },
  };
}
