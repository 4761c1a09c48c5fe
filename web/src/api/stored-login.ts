/**
 * The token that the page sends with every request, beside the cookie. The storage belongs to this origin, port included,
 * so that no other server of this machine gets it.
 */
const KEY = "holdfast.page-token";
const SESSION_KEY = "holdfast.session-id";

export interface StoredLogin {
  readonly token: string;
  /** Null: the page has the operator's rights. */
  readonly sessionId: string | null;
}

export function storedLogin(): StoredLogin | null {
  const token = localStorage.getItem(KEY);
  return token === null ? null : { token, sessionId: localStorage.getItem(SESSION_KEY) };
}

export function storeLogin({ token, sessionId }: StoredLogin): void {
  localStorage.setItem(KEY, token);
  if (sessionId === null) localStorage.removeItem(SESSION_KEY);
  else localStorage.setItem(SESSION_KEY, sessionId);
}

export function removeLogin(): void {
  localStorage.removeItem(KEY);
  localStorage.removeItem(SESSION_KEY);
}
