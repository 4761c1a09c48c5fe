import { randomBytes } from "node:crypto";
import { readOwnFileSync, writeOwnFile } from "../../home/own-file.js";
import { renameFile } from "../../home/rename-file.js";
import { defaults } from "../../defaults.js";
import { type Requester, sessionIdOf } from "../../sessions/requester.js";
import { hashSessionToken, tokensEqual } from "../../sessions/tokens.js";

/** A browser that exchanged a link. Only hashes of its secrets are kept. */
export interface Login {
  readonly cookieHash: string;
  readonly tokenHash: string;
  /** Null: it has the operator's rights. */
  readonly sessionId: string | null;
  readonly expiresAt: number;
  /** Not null: it was opened with a token of the session, and is valid only with it. Such a login is not stored. */
  readonly isTokenValid: (() => Promise<boolean>) | null;
}

/** The secrets of a new login, which only the browser keeps. */
export interface NewLogin {
  readonly login: Login;
  readonly cookie: string;
  readonly token: string;
}

interface Link {
  readonly requester: Requester;
  readonly expiresAt: number;
}

/** The state of the dashboard that a restarted gateway continues with. */
export interface StoredDashboard {
  readonly port: number;
  readonly logins: readonly Omit<Login, "isTokenValid">[];
}

/** 256 random bits cannot be guessed. */
const newSecret = (): string => randomBytes(32).toString("base64url");

/** One-time links, and the browsers that are logged in. */
export class Logins {
  readonly #links = new Map<string, Link>();
  readonly #logins = new Map<string, Login>();
  readonly #now: () => number;

  constructor(stored: readonly Omit<Login, "isTokenValid">[] = [], now: () => number = Date.now) {
    this.#now = now;
    for (const login of stored)
      if (login.expiresAt > now()) this.#logins.set(login.cookieHash, { ...login, isTokenValid: null });
  }

  /** A link that has not expired, or a login. */
  get inUse(): boolean {
    this.#removeExpired();
    return this.#links.size + this.#logins.size > 0;
  }

  newLink(requester: Requester): { readonly secret: string; readonly expiresAt: number } {
    this.#removeExpired();
    const secret = newSecret();
    const expiresAt = this.#now() + defaults.dashboardLinkMs;
    this.#links.set(hashSessionToken(secret), { requester, expiresAt });
    dropOldest(this.#links, defaults.dashboardLinks);
    return { secret, expiresAt };
  }

  /** Null: there is no such link, it was used, or it has expired. */
  exchange(secret: string): NewLogin | null {
    this.#removeExpired();
    const hash = hashSessionToken(secret);
    const link = this.#links.get(hash);
    if (link === undefined) return null;
    this.#links.delete(hash);
    const { requester } = link;
    const [cookie, token] = [newSecret(), newSecret()];
    const login: Login = {
      cookieHash: hashSessionToken(cookie),
      tokenHash: hashSessionToken(token),
      sessionId: sessionIdOf(requester),
      expiresAt: this.#now() + defaults.dashboardLoginMs,
      isTokenValid: requester.kind === "session" ? (requester.isTokenValid ?? null) : null,
    };
    this.#logins.set(login.cookieHash, login);
    dropOldest(this.#logins, defaults.dashboardLogins);
    return { login, cookie, token };
  }

  /** Both secrets are needed: browsers send the cookie to every port of this machine. */
  find(cookie: string, token: string): Login | null {
    this.#removeExpired();
    const login = this.#logins.get(hashSessionToken(cookie));
    return login !== undefined && tokensEqual(hashSessionToken(token), login.tokenHash) ? login : null;
  }

  /** The logins that are valid, by the hash of their cookie. */
  keys(): Iterable<string> {
    this.#removeExpired();
    return this.#logins.keys();
  }

  has({ cookieHash }: Login): boolean {
    this.#removeExpired();
    return this.#logins.has(cookieHash);
  }

  remove({ cookieHash }: Login): void {
    this.#logins.delete(cookieHash);
  }

  toStore(): StoredDashboard["logins"] {
    return [...this.#logins.values()]
      .filter((each) => each.isTokenValid === null)
      .map(({ cookieHash, tokenHash, sessionId, expiresAt }) => ({
        ...{ cookieHash, tokenHash, sessionId, expiresAt },
      }));
  }

  #removeExpired(): void {
    const now = this.#now();
    for (const entries of [this.#links, this.#logins])
      for (const [key, { expiresAt }] of entries) if (expiresAt <= now) entries.delete(key);
  }
}

function dropOldest(entries: Map<string, unknown>, limit: number): void {
  const [oldest] = entries.keys();
  if (entries.size > limit && oldest !== undefined) entries.delete(oldest);
}

/** Null: no dashboard was ever open. */
export function readStored(path: string): StoredDashboard | null {
  try {
    return JSON.parse(readOwnFileSync(path)) as StoredDashboard;
  } catch {
    return null;
  }
}

/** Without logins, only the port is kept for the next time. */
export async function writeStored(path: string, stored: StoredDashboard): Promise<void> {
  writeOwnFile(`${path}.new`, JSON.stringify(stored));
  await renameFile(`${path}.new`, path);
}
