import type { IncomingMessage } from "node:http";
import { tokenIdFromHash } from "../../api/token-proof.js";
import { Unauthorized } from "../../errors.js";
import { hashSessionToken, type Requester, tokensEqual } from "../../sessions/requester.js";
import type { Sessions } from "../../sessions/sessions.js";
import { tokenFromRequest } from "./challenge.js";

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
