import { createHash, randomBytes } from "node:crypto";

/** 256 random bits cannot be guessed, so an unsalted hash is safe to store and to look up. */
const TOKEN_BYTES = 32;
const TOKEN_SHAPE = /^hft_[\w-]{43}$/;

export function newSessionToken(): string {
  return `hft_${randomBytes(TOKEN_BYTES).toString("base64url")}`;
}

/** The stored form of a token. */
export function hashSessionToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

export function isSessionToken(text: string): boolean {
  return TOKEN_SHAPE.test(text);
}
