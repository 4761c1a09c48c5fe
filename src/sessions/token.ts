import { createHash, randomBytes } from "node:crypto";

/** 256 bits: nobody finds one by trying, so a plain hash of it is safe to keep, and looking that up gives nothing away by its timing. */
const BYTES = 32;
const SHAPE = /^hft_[\w-]{43}$/;

export function newToken(): string {
  return `hft_${randomBytes(BYTES).toString("base64url")}`;
}

/** What is stored in a token's place. */
export function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

export function isToken(text: string): boolean {
  return SHAPE.test(text);
}
