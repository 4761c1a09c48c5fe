import { createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";

/*
 * Before a client sends anything, gateway and client prove to each other that they know the token, once per connection
 * (docs/reference/api.md, Proof). Both sides know the SHA-256 hash of the token; the hash is the key.
 *
 *   client → gateway   GET /v1/challenge: the token's id, the client's nonce
 *   gateway → client   the gateway's nonce, HMAC(hash, gateway label, both nonces)
 *   client → gateway   with each request: the token XOR HKDF(hash, client label, both nonces)
 *
 * As in SCRAM (RFC 5802) the client's proof needs the token itself, not only its hash: a process that reads hashes in the
 * store cannot act for a session. A process without the hash learns nothing of the token.
 */

export const CHALLENGE_PATH = "/v1/challenge";
export const TOKEN_ID_HEADER = "holdfast-token-id";
export const NONCE_HEADER = "holdfast-nonce";
/** The scheme of the Authorization header that carries the client's proof. */
export const PROOF_SCHEME = "Holdfast";

const NONCE_BYTES = 32;
const NONCE = /^[\w-]{43}$/;
const TOKEN_ID = /^[0-9a-f]{16}$/;

/** 64 of the hash's 256 bits: enough to find the token, useless without the others. */
const TOKEN_ID_LENGTH = 16;

/** The nonces of one connection. */
export interface Nonces {
  readonly client: string;
  readonly gateway: string;
}

export function newNonce(): string {
  return randomBytes(NONCE_BYTES).toString("base64url");
}

export function isNonce(text: unknown): text is string {
  return typeof text === "string" && NONCE.test(text);
}

/** Names a token without revealing it. */
export function tokenIdFromHash(hash: string): string {
  return hash.slice(0, TOKEN_ID_LENGTH);
}

export function isTokenId(text: unknown): text is string {
  return typeof text === "string" && TOKEN_ID.test(text);
}

export function gatewayProof(hash: string, { client, gateway }: Nonces): string {
  return createHmac("sha256", Buffer.from(hash, "hex"))
    .update(`holdfast gateway proof 1\0${client}\0${gateway}`)
    .digest("base64url");
}

export function isGatewayProof(proof: unknown, hash: string, nonces: Nonces): boolean {
  if (typeof proof !== "string") return false;
  const expected = Buffer.from(gatewayProof(hash, nonces));
  const given = Buffer.from(proof);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

/** The client's proof, sent in place of its token. Only for a gateway that has proven itself: a process with the hash can recover the token from it. */
export function clientProof(token: string, hash: string, nonces: Nonces): string {
  return xorWithDerivedKey(Buffer.from(token), hash, nonces).toString("base64url");
}

/** The token that a client's proof stands for. The caller must check whether the token is valid. */
export function tokenFromProof(proof: string, hash: string, nonces: Nonces): string {
  return xorWithDerivedKey(Buffer.from(proof, "base64url"), hash, nonces).toString("utf8");
}

function xorWithDerivedKey(bytes: Buffer, hash: string, { client, gateway }: Nonces): Buffer {
  if (bytes.length === 0) return bytes;
  const info = "holdfast client proof 1";
  const mask = hkdfSync("sha256", Buffer.from(hash, "hex"), `${client}\0${gateway}`, info, bytes.length);
  const key = new Uint8Array(mask);
  return Buffer.from(bytes.map((byte, at) => byte ^ (key[at] ?? 0)));
}
