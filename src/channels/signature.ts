import { createHmac } from "node:crypto";
import { DeliveryFailed } from "../tasks/notification.js";

export const PREFIX = "whsec_";
/** As https://www.standardwebhooks.com asks for. */
const LEAST_BYTES = 24;
const MOST_BYTES = 64;

/** The key in a secret as it is written: `whsec_` and 24 to 64 bytes in base64. */
export function keyOf(secret: string): Buffer {
  const written = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : "";
  const key = Buffer.from(written, "base64");
  const exact = key.toString("base64").replace(/=+$/, "") === written.replace(/=+$/, "");
  if (exact && key.length >= LEAST_BYTES && key.length <= MOST_BYTES) return key;
  throw new DeliveryFailed(
    `the webhook's secret must be ${PREFIX} and ${LEAST_BYTES} to ${MOST_BYTES} bytes in base64`,
  );
}

/** The headers of Standard Webhooks, with a signature for each key: a receiver accepts if one of them is its own. */
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
