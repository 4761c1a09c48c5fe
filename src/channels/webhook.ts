import type { Channel } from "./channel.js";
import type { EntryOf } from "./entry.js";
import { payloadOf } from "./payload.js";
import { isTaken, post, refused } from "./post.js";
import { readSecret } from "./secret.js";
import { keyOf, PREFIX, signedHeaders } from "./signature.js";

/** The receiver wants no more of them. Everything else may have changed at the next try. */
const GONE = [410];

/** Standard Webhooks: signed, under an id by which the receiver drops what it has had. */
export function webhookChannel(entry: EntryOf<"webhook">): Channel {
  return {
    deliver: async (notification, address, signal) => {
      const secrets = await Promise.all(entry.secrets.map((source) => readSecret(source)));
      const body = payloadOf(notification, address);
      const headers = signedHeaders(
        notification.id,
        Math.floor(Date.now() / 1_000),
        body,
        secrets.map(keyOf),
      );
      const bare = secrets.map((each) => each.slice(PREFIX.length));
      const letter = { url: new URL(entry.url), headers, body, rules: entry, secrets: [...secrets, ...bare] };
      const answer = await post(letter, signal);
      if (!isTaken(answer)) throw refused(letter, answer, GONE);
      return String(answer.status);
    },
  };
}
