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
import type { Requester } from "../../sessions/requester.js";
import { tokensEqual, hashSessionToken } from "../../sessions/tokens.js";
import type { Sessions } from "../../sessions/sessions.js";

/** The hash of the token with that id; null: there is none. */
export type FindTokenHash = (tokenId: string) => Promise<string | null>;

interface Challenge {
  readonly hash: string;
  readonly nonces: Nonces;
  /** The last proof, and the token that it was decoded to. Each request checks whether the token is valid. */
  decoded: { readonly proof: string; readonly token: string } | null;
}

/** Nonces by connection: a proof is not valid on another connection, or after the next challenge. */
const challenges = new WeakMap<Duplex, Challenge>();

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
  challenges.set(socket, { hash, nonces, decoded: null });
  return { nonce: nonces.gateway, proof: gatewayProof(hash, nonces) };
}

/** The token of a request: sent as it is, or as a proof on a challenged connection. Null: the request has none. */
export function tokenFromRequest({ headers, socket }: IncomingMessage): string | null {
  const [, scheme, shown] = /^(Bearer|Holdfast) ([\w.~+/=-]{1,300})$/.exec(headers.authorization ?? "") ?? [];
  if (shown === undefined) return null;
  if (scheme !== PROOF_SCHEME) return shown;
  const challenge = challenges.get(socket);
  if (challenge === undefined) return null;
  if (challenge.decoded?.proof !== shown)
    challenge.decoded = { proof: shown, token: tokenFromProof(shown, challenge.hash, challenge.nonces) };
  return challenge.decoded.token;
}

const OPERATOR: Requester = { kind: "operator", actor: "operator" };

export async function authenticateToken(
  sessions: Sessions,
  operator: string,
  token: string,
): Promise<Requester | null> {
  if (tokensEqual(token, operator)) return OPERATOR;
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
