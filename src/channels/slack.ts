import { defaults } from "../defaults.js";
import { DeliveryFailed } from "../tasks/delivery.js";
import { truncate } from "../text/truncate.js";
import type { Channel } from "./channel.js";
import { isHttpUrl, type ChannelEntryOf } from "../config/channels.js";
import { isAccepted, postJson, rejectionError } from "./http-post.js";
import { readSecret } from "./secrets.js";

/** What was sent, the webhook or its channel will not be accepted later either. */
const PERMANENT_STATUSES = [400, 403, 404, 410];

/** An incoming webhook as Slack has them; others understand the same. It knows no ids: a repeat is seen twice. */
export function slackChannel(entry: ChannelEntryOf<"slack">): Channel {
  return {
    deliver: async ({ text }, address, signal) => {
      const written = await readSecret(entry.url);
      if (!isHttpUrl(written))
        throw new DeliveryFailed("the Slack webhook's secret is not an address as https://host/path");
      const body = JSON.stringify({
        text: escapeSlack(truncate(text, defaults.slackTextChars)),
        mrkdwn: false,
        unfurl_links: false,
        unfurl_media: false,
        ...(address === null ? {} : { channel: address }),
      });
      const message = { url: new URL(written), body, rules: entry, secrets: [written] };
      const answer = await postJson(message, signal);
      if (!isAccepted(answer)) throw rejectionError(message, answer, PERMANENT_STATUSES);
      return null;
    },
  };
}

/**
 * The three characters by which Slack tells links, mentions and entities from text. Others read Markdown and plain names, also
 * `@everyone`: what makes a mention, or words the face of a link, is parted by a space that is not seen.
 */
function escapeSlack(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll(/@(?=\w)|\](?=[([])/g, "$&\u200B");
}
