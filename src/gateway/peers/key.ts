import { hkdfSync, randomBytes } from "node:crypto";

const KEY_BYTES = 32;

/** New with every incarnation, and written only to the store: who can read it there is one of ours. */
export function newPeerKey(): string {
  return randomBytes(KEY_BYTES).toString("base64url");
}

/** What `caller` and `target` prove to each other that both can read the store. Of no use between any two others. */
export function derivePeerKey(peerKey: string, caller: string, target: string): Buffer {
  const info = `holdfast peer\0${caller}\0${target}`;
  return Buffer.from(hkdfSync("sha256", Buffer.from(peerKey, "base64url"), "", info, KEY_BYTES));
}
