import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { BadInput, Unauthorized } from "../../errors.js";
import {
  gatewayProof,
  isNonce,
  isTokenId,
  newNonce,
  NONCE_HEADER,
  PROOF_SCHEME,
  TOKEN_ID_HEADER,
  tokenFromProof,
  type Nonces,
} from "../../api/token-proof.js";

/** The hash of the token with that id; null: there is none. */
export type FindTokenHash = (tokenId: string) => Promise<string | null>;

interface PendingChallenge {
  readonly hash: string;
  readonly nonces: Nonces;
}

/** Nonces by connection: a proof is not valid on another connection, or after the next challenge. */
const challenges = new WeakMap<Duplex, PendingChallenge>();

/** Proves to a client that this gateway knows its token, and keeps the nonces for the client's own proof. */
export async function answerChallenge(
  findTokenHash: FindTokenHash,
  { socket, headers }: IncomingMessage,
): Promise<{ readonly nonce: string; readonly proof: string }> {
  const client = headers[NONCE_HEADER];
  const tokenId = headers[TOKEN_ID_HEADER];
  if (!isNonce(client)) throw new BadInput(NONCE_HEADER, `${NONCE_HEADER} must be 32 bytes in base64url`);
  const hash = isTokenId(tokenId) ? await findTokenHash(tokenId) : null;
  if (hash === null) throw new Unauthorized("a valid token is needed");
  const nonces = { client, gateway: newNonce() };
  challenges.set(socket, { hash, nonces });
  return { nonce: nonces.gateway, proof: gatewayProof(hash, nonces) };
}

/** The token of a request: sent as it is, or as a proof on a challenged connection. Null: the request has none. */
export function tokenFromRequest({ headers, socket }: IncomingMessage): string | null {
  const [, scheme, shown] = /^(Bearer|Holdfast) ([\w.~+/=-]{1,300})$/.exec(headers.authorization ?? "") ?? [];
  if (shown === undefined) return null;
  if (scheme !== PROOF_SCHEME) return shown;
  const known = challenges.get(socket);
  return known === undefined ? null : tokenFromProof(shown, known.hash, known.nonces);
}
