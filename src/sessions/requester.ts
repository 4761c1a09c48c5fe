import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { join } from "node:path";
import { errnoCode } from "../home/errno.js";
import { readOwnFile } from "../home/own-file.js";
import { persistentId } from "../home/state-identity.js";
import type { SessionRecord } from "../model/session.js";

/** The operator or session that makes a request; a session as it was when its token was checked. */
export type Requester =
  | { readonly kind: "operator"; readonly actor: string }
  | {
      readonly kind: "session";
      readonly actor: string;
      readonly session: SessionRecord;
      /** True if the token is still valid. Absent: another gateway checked the token. */
      readonly isTokenValid?: () => Promise<boolean>;
    };

/** Null: an operator. */
export function sessionIdOf(requester: Requester): string | null {
  return requester.kind === "session" ? requester.session.id : null;
}

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
  return readOwnFile(join(home, TOKEN_FILE)).then(
    (text) => text.trim(),
    (error: unknown) => {
      if (errnoCode(error) === "UNSAFE_PATH") throw error;
      return null;
    },
  );
}

/** Compares the hashes, in constant time: they have the same length. */
export function tokensEqual(one: string, other: string): boolean {
  const hash = (text: string): Buffer => createHash("sha256").update(text).digest();
  return timingSafeEqual(hash(one), hash(other));
}

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
