import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import {
  gatewayProof,
  isNonce,
  isTokenId,
  newNonce,
  NONCE_HEADER,
  type Nonces,
  PROOF_SCHEME,
  TOKEN_ID_HEADER,
  tokenFromProof,
  tokenIdFromHash,
} from "../../api/token-proof.js";
import { BadInput, Unauthorized } from "../../errors.js";
import { type Requester, tokensEqual, hashSessionToken } from "../../sessions/requester.js";
import type { Sessions } from "../../sessions/sessions.js";

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
  findHash: FindTokenHash,
  { socket, headers }: IncomingMessage,
): Promise<{ readonly nonce: string; readonly proof: string }> {
  const client = headers[NONCE_HEADER];
  const tokenId = headers[TOKEN_ID_HEADER];
  if (!isNonce(client)) throw new BadInput(NONCE_HEADER, `${NONCE_HEADER} must be 32 bytes in base64url`);
  const hash = isTokenId(tokenId) ? await findHash(tokenId) : null;
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

export async function authenticateToken(
  sessions: Sessions,
  operator: string,
  token: string,
): Promise<Requester | null> {
  if (tokensEqual(token, operator)) return { kind: "operator", actor: "operator" };
  const session = await sessions.authenticate(token);
  if (session === null) return null;
  const tokenIsGood = async (): Promise<boolean> => (await sessions.authenticate(token)) !== null;
  return { kind: "session", actor: `session:${session.key}`, session, isTokenValid: tokenIsGood };
}

export async function findTokenHash(
  sessions: Sessions,
  operator: string,
  tokenId: string,
): Promise<string | null> {
  const hash = hashSessionToken(operator);
  return tokenIdFromHash(hash) === tokenId ? hash : sessions.tokenHash(tokenId);
}

/** The requester that the request's token belongs to. Rejects with Unauthorized. */
export async function authenticateRequest(
  authenticate: (token: string) => Promise<Requester | null>,
  request: IncomingMessage,
): Promise<Requester> {
  const token = tokenFromRequest(request);
  const requester = token === null ? null : await authenticate(token);
  if (requester === null) throw new Unauthorized("a valid token is needed");
  return requester;
}
