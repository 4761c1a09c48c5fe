import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { join } from "node:path";
import { errnoCode } from "../home/errno.js";
import { readOwnFileSync } from "../home/own-file.js";
import { persistentId } from "../home/persistent-ids.js";

const TOKEN_FILE = "operator-token";
const TOKEN_PREFIX = "hfo_";

/** Created once, with mode 0600 in the private state directory: a user that can read it is the operator. */
export async function loadOrCreateOperatorToken(home: string): Promise<string> {
  return persistentId(home, TOKEN_FILE, () => `${TOKEN_PREFIX}${randomBytes(32).toString("base64url")}`);
}

export function isOperatorToken(token: string): boolean {
  return token.startsWith(TOKEN_PREFIX);
}

/** For clients: creates no token. Rejects with UnsafePath if the file belongs to another user or is a symbolic link. */
export async function readOperatorToken(home: string): Promise<string | null> {
  try {
    return readOwnFileSync(join(home, TOKEN_FILE)).trim();
  } catch (error) {
    if (errnoCode(error) === "UNSAFE_PATH") throw error;
    return null;
  }
}

/** Compares the hashes, in constant time: they have the same length. */
export function tokensEqual(one: string, other: string): boolean {
  return timingSafeEqual(hash("sha256", one, "buffer"), hash("sha256", other, "buffer"));
}

/** 256 random bits cannot be guessed, so an unsalted hash is safe to store and to look up. */
const TOKEN_BYTES = 32;
const TOKEN_SHAPE = /^hft_[\w-]{43}$/;

export function newSessionToken(): string {
  return `hft_${randomBytes(TOKEN_BYTES).toString("base64url")}`;
}

/** The stored form of a token. */
export function hashSessionToken(token: string): string {
  return hash("sha256", token, "hex");
}

export function isSessionToken(text: string): boolean {
  return TOKEN_SHAPE.test(text);
}
