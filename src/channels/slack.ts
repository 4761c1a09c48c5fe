import { defaults } from "../defaults.js";
import { DeliveryFailed } from "../tasks/delivery-attempt.js";
import { truncate } from "../text/truncate.js";
import type { Channel } from "./channel.js";
import { isHttpUrl, type ChannelEntryOf } from "../config/channels.js";
import { isAccepted, postJson, rejectionError } from "./http-post.js";
import { readSecret } from "./secrets.js";

/** The message, the webhook or its channel is invalid. */
const PERMANENT_STATUSES = [400, 403, 404, 410];

/** An incoming webhook of Slack or a compatible service. It has no message ids, so a repeat is shown twice. */
export function slackChannel(entry: ChannelEntryOf<"slack">): Channel {
  return {
    deliver: async ({ text }, address, signal) => {
      const written = await readSecret(entry.url);
      if (!isHttpUrl(written))
        throw new DeliveryFailed(
          "the secret of the Slack webhook is not an address of the form https://host/path",
        );
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
 * Escapes the three characters that start links, mentions and entities in Slack. Compatible services also interpret
 * Markdown and plain names such as `@everyone`, so a zero-width space breaks mentions and links.
 */
function escapeSlack(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll(/@(?=\w)|\](?=[([])/g, "$&\u200B");
}
