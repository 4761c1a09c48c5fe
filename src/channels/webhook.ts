import { createHmac } from "node:crypto";
import type { ChannelEntryOf } from "../config/channels.js";
import { DeliveryFailed } from "../tasks/delivery-attempt.js";
import { type Channel, notificationPayload } from "./channel.js";
import { isAccepted, postJson, rejectionError } from "./http-post.js";
import { readSecret } from "./secrets.js";

const SECRET_PREFIX = "whsec_";
/** Limits of https://www.standardwebhooks.com. */
const MIN_KEY_BYTES = 24;
const MAX_KEY_BYTES = 64;

/** Parses a secret: `whsec_` and 24 to 64 bytes in base64. */
export function parseSigningKey(secret: string): Buffer {
  const encoded = secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : "";
  const key = Buffer.from(encoded, "base64");
  const exact = key.toString("base64").replace(/=+$/, "") === encoded.replace(/=+$/, "");
  if (exact && key.length >= MIN_KEY_BYTES && key.length <= MAX_KEY_BYTES) return key;
  throw new DeliveryFailed(
    `the secret of the webhook must be ${SECRET_PREFIX} followed by ${MIN_KEY_BYTES} to ${MAX_KEY_BYTES} bytes in base64`,
  );
}

/** The headers of Standard Webhooks with one signature per key; a receiver accepts any of them. */
export function signedHeaders(
  id: string,
  seconds: number,
  body: string,
  keys: readonly Buffer[],
): Readonly<Record<string, string>> {
  const sign = (key: Buffer): string =>
    `v1,${createHmac("sha256", key).update(`${id}.${seconds}.${body}`).digest("base64")}`;
  return {
    "webhook-id": id,
    "webhook-timestamp": String(seconds),
    "webhook-signature": keys.map(sign).join(" "),
  };
}

/** 410 Gone: the receiver wants no more webhooks. Any other status may change. */
const PERMANENT_STATUSES = [410];

/** Standard Webhooks: signed, with an id by which the receiver drops repeats. */
export function webhookChannel(entry: ChannelEntryOf<"webhook">): Channel {
  return {
    deliver: async (notification, address, signal) => {
      const secrets = await Promise.all(entry.secrets.map((source) => readSecret(source)));
      const body = notificationPayload(notification, address);
      const seconds = Math.floor(Date.now() / 1_000);
      const headers = signedHeaders(notification.id, seconds, body, secrets.map(parseSigningKey));
      const withoutPrefix = secrets.map((each) => each.slice(SECRET_PREFIX.length));
      const redacted = [...secrets, ...withoutPrefix];
      const message = { url: new URL(entry.url), headers, body, rules: entry, secrets: redacted };
      const answer = await postJson(message, signal);
      if (!isAccepted(answer)) throw rejectionError(message, answer, PERMANENT_STATUSES);
      return String(answer.status);
    },
  };
}
