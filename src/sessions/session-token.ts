import { createHash, randomBytes } from "node:crypto";

/** 256 bits: nobody finds one by trying, so a plain hash of it is safe to keep, and looking that up gives nothing away by its timing. */
const TOKEN_BYTES = 32;
const TOKEN_SHAPE = /^hft_[\w-]{43}$/;

export function newSessionToken(): string {
  return `hft_${randomBytes(TOKEN_BYTES).toString("base64url")}`;
}

/** What is stored in a token's place. */
export function hashSessionToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

export function isSessionToken(text: string): boolean {
  return TOKEN_SHAPE.test(text);
}
