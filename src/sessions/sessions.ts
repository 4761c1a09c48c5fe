import { type Clock, systemClock } from "../async/clock.js";
import { CoalescedLookup } from "../async/concurrency.js";
import { BadInput, SessionClosed, SessionTaken } from "../errors.js";
import { looksLikeSessionId, newSessionId } from "../model/ids.js";
import type { ExecRule } from "../model/exec/exec-rule.js";
import type {
  InteractionMode,
  NewSession,
  SessionRecord,
  SessionScope,
  Visibility,
} from "../model/session.js";
import type { SessionFilter, SessionStore, TokenOptions } from "../store/sessions/contract.js";
import type { Approvals } from "./approvals.js";
import { hashSessionToken, isSessionToken, newSessionToken } from "./tokens.js";
import { findSessionByAbbreviation, findSessionByName, type NameLookup } from "./resolve-session.js";
import {
  type A2aPolicy,
  canSeeSessionRow,
  ancestorIds,
  narrower,
  type VisibilityDecision,
  type VisibilityRequest,
  visibleSessions,
} from "./visibility.js";

/** Options of a new session. The exec rules are validated by a schema before. */
export interface SessionOptions {
  readonly agentId?: string;
  readonly ownerSessionKey?: string;
  readonly spawnedBy?: string;
  readonly parentSessionKey?: string;
  readonly backend?: string;
  readonly interactionMode?: InteractionMode;
  readonly sandboxed?: boolean;
  readonly visibility?: Visibility;
  readonly execRules?: readonly ExecRule[];
}

export interface SessionsDependencies {
  readonly store: SessionStore;
  readonly approvals: Pick<Approvals, "sessionClosed">;
  readonly gatewayInstanceId: string;
  readonly a2aPolicy: A2aPolicy;
  /** Defaults of new sessions. */
  readonly visibility?: Visibility;
  readonly execRules?: readonly ExecRule[];
  readonly clock?: Clock;
}

interface TokenLifetime {
  /** Default: until the session is closed. */
  readonly ttlMs?: number | undefined;
}

/** The session itself and its descendants. */
const DEFAULT_VISIBILITY: Visibility = "tree";

export class Sessions {
  readonly #store: SessionStore;
  readonly #approvals: Pick<Approvals, "sessionClosed">;
  readonly #clock: Clock;
  readonly #lookups: CoalescedLookup<SessionRecord | null>;
  readonly #a2aPolicy: A2aPolicy;
  readonly #defaults: Pick<NewSession, "gatewayInstanceId" | "visibility" | "execRules">;

  constructor(dependencies: SessionsDependencies) {
    this.#store = dependencies.store;
    this.#approvals = dependencies.approvals;
    this.#clock = dependencies.clock ?? systemClock;
    this.#lookups = new CoalescedLookup((hash) => this.#store.resolveToken(hash, this.#clock.wall()));
    this.#a2aPolicy = dependencies.a2aPolicy;
    this.#defaults = {
      gatewayInstanceId: dependencies.gatewayInstanceId,
      visibility: dependencies.visibility ?? DEFAULT_VISIBILITY,
      execRules: dependencies.execRules ?? [],
    };
  }

  /**
   * Returns the open session with this key, or creates it. Rejects with SessionTaken if an open one differs from the
   * options.
   */
  async open(
    key: string,
    options: SessionOptions = {},
  ): Promise<{ readonly session: SessionRecord; readonly created: boolean }> {
    checkKey("key", key);
    return this.#open(await this.#describe(key, options), options);
  }

  /**
   * The same for a requester. A session gets a child of its own, in its sandbox, that may see and execute no more than
   * the requester, which can read the child's token. A child with another agent sees at most its own tree.
   */
  async openFor(
    requester: SessionRecord | null,
    key: string,
    options: Omit<SessionOptions, "ownerSessionKey" | "spawnedBy" | "parentSessionKey" | "execRules"> = {},
  ): Promise<{ readonly session: SessionRecord; readonly created: boolean }> {
    if (requester === null) return this.open(key, options);
    checkKey("key", key);
    const sameAgent = (options.agentId ?? null) === requester.agentId;
    const most = sameAgent ? requester.visibility : narrower(requester.visibility, "tree");
    const given = {
      ...options,
      ownerSessionKey: requester.key,
      spawnedBy: requester.key,
      parentSessionKey: requester.key,
      visibility: narrower(most, options.visibility ?? this.#defaults.visibility),
      execRules: requester.execRules,
    };
    const wanted = await this.#describe(key, given);
    // Another session has the requester's key now.
    if (!wanted.lineage.includes(requester.id)) throw new SessionClosed(requester.id);
    return this.#open(wanted, given, requester);
  }

  /** Records the agent's own id of the session. */
  setAgentSession(id: string, agentSessionId: string): Promise<boolean> {
    return this.#store.setAgentSessionId(id, agentSessionId);
  }

  /** Records who closes the session, and why, before `close`. */
  recordClosing(id: string, actor: string, reason: string | null): Promise<void> {
    return this.#store.recordSessionClosing(id, actor, reason);
  }

  /** Closes a session; its tokens and approvals end. False: it was not open. */
  async close(id: string, actor: string, reason: string | null = null): Promise<boolean> {
    const closed = await this.#store.closeSession(id, actor, this.#clock.wall(), reason);
    await this.#approvals.sessionClosed(id);
    return closed;
  }

  /** Issues a token, which is kept only as a hash; it expires after `ttlMs`, if given. Null: the session is not open. */
  issueToken(id: string, { ttlMs }: TokenLifetime = {}): Promise<string | null> {
    return this.#issue(id, { expiresAt: ttlMs === undefined ? null : this.#clock.wall() + ttlMs });
  }

  /** Issues a token for a run that is about to be started; `bindToken` names the run. The token ends with the run. */
  issueRunToken(id: string): Promise<string | null> {
    return this.#issue(id, { ofRun: true });
  }

  /** `runId` null: the run was not started, and its token ends. */
  async bindToken(token: string, runId: string | null): Promise<void> {
    if (runId === null) await this.#store.revokeToken(hashSessionToken(token));
    else await this.#store.bindToken(hashSessionToken(token), runId);
  }

  /** Issues a new token; other tokens end now, or after `graceMs`, but not those of its runs. Null: the session is not open. */
  async rotateToken(
    id: string,
    { ttlMs, graceMs = 0 }: TokenLifetime & { readonly graceMs?: number | undefined } = {},
  ): Promise<string | null> {
    const token = newSessionToken();
    const now = this.#clock.wall();
    const facts = { expiresAt: ttlMs === undefined ? null : now + ttlMs, endAt: now + graceMs };
    return (await this.#store.rotateTokens(id, hashSessionToken(token), now, facts)) ? token : null;
  }

  async revokeToken(token: string): Promise<boolean> {
    return isSessionToken(token) && (await this.#store.revokeToken(hashSessionToken(token)));
  }

  async authenticate(token: string): Promise<SessionRecord | null> {
    return isSessionToken(token) ? this.#lookups.find(hashSessionToken(token)) : null;
  }

  /** The whole hash of a token whose hash begins with `prefix`; null: no open session has such a token. */
  tokenHash(prefix: string): Promise<string | null> {
    return this.#store.findTokenHash(prefix);
  }

  /** `asked` limits the visibility further. */
  canSee(
    requester: SessionRecord,
    row: Pick<SessionRecord, "id" | "agentId" | "lineage">,
    asked: Visibility = requester.visibility,
  ): VisibilityDecision {
    return canSeeSessionRow({ row, ...this.#visibilityOf(requester, asked) });
  }

  /** The sessions that `canSee` accepts, as a filter. */
  visibleScope(requester: SessionRecord, asked: Visibility = requester.visibility): SessionScope {
    return visibleSessions(this.#visibilityOf(requester, asked));
  }

  #visibilityOf(requester: SessionRecord, asked: Visibility): Omit<VisibilityRequest, "row"> {
    const visibility = narrower(requester.visibility, asked);
    return { requester, visibility, a2aPolicy: this.#a2aPolicy, sandboxed: requester.sandboxed };
  }

  /** Finds a session by its id, or an open session by its key. */
  find(wanted: string): Promise<SessionRecord | null> {
    return looksLikeSessionId(wanted) ? this.get(wanted) : this.getByKey(wanted);
  }

  /** Finds a session by its id or key, also a closed one. */
  findByName(wanted: string, lookup: NameLookup): Promise<SessionRecord | null> {
    return findSessionByName(this.#store, wanted, lookup);
  }

  /** Finds a session by the last part or the beginning of its key, or by the beginning of its id. */
  findByAbbreviation(wanted: string, lookup: NameLookup): Promise<SessionRecord | null> {
    return findSessionByAbbreviation(this.#store, wanted, lookup);
  }

  get(id: string): Promise<SessionRecord | null> {
    return this.#store.getSession(id);
  }

  getByKey(key: string): Promise<SessionRecord | null> {
    return this.#store.getSessionByKey(key);
  }

  list(filter: SessionFilter = {}): Promise<readonly SessionRecord[]> {
    return this.#store.listSessions(filter);
  }

  async #issue(id: string, facts: TokenOptions): Promise<string | null> {
    const token = newSessionToken();
    return (await this.#store.issueToken(id, hashSessionToken(token), this.#clock.wall(), facts))
      ? token
      : null;
  }

  async #open(
    wanted: NewSession,
    given: SessionOptions,
    requester: SessionRecord | null = null,
  ): Promise<{ readonly session: SessionRecord; readonly created: boolean }> {
    const answer = await this.#store.createSession(wanted);
    if (answer.created) return answer;
    // The difference would reveal facts of a session that the requester may not see.
    if (requester !== null && !answer.session.lineage.includes(requester.id))
      throw new SessionTaken(wanted.key, "an open session has it");
    assertSameSession(answer.session, wanted, given);
    return answer;
  }

  async #describe(key: string, options: SessionOptions): Promise<NewSession> {
    const { ownerSessionKey = null, spawnedBy = null, parentSessionKey = null } = options;
    const nearest = await this.#findNamed({ ownerSessionKey, spawnedBy, parentSessionKey });
    // A parent must be open; owner and starter may be closed.
    if (parentSessionKey !== null && !nearest.some((row) => row.key === parentSessionKey))
      throw new BadInput(
        "parentSessionKey",
        `no open session has the key ${JSON.stringify(parentSessionKey)} to be the parent; no session was opened`,
      );
    return {
      ...this.#defaults,
      id: newSessionId(),
      key,
      agentId: options.agentId ?? null,
      ownerSessionKey,
      spawnedBy,
      parentSessionKey,
      lineage: ancestorIds(nearest),
      backend: options.backend ?? null,
      interactionMode: options.interactionMode ?? "interactive",
      // A session of a sandboxed session is sandboxed, too: its starter can read its token.
      sandboxed: options.sandboxed === true || nearest.some(({ sandboxed }) => sandboxed),
      visibility: options.visibility ?? this.#defaults.visibility,
      execRules: options.execRules ?? this.#defaults.execRules,
      createdAt: this.#clock.wall(),
    };
  }

  /** A key without an open session is stored as a name only: a later session with this key is no ancestor. */
  async #findNamed(keys: Readonly<Record<string, string | null>>): Promise<readonly SessionRecord[]> {
    const rows: SessionRecord[] = [];
    for (const [field, key] of Object.entries(keys)) {
      if (key === null) continue;
      checkKey(field, key);
      const row = await this.#store.getSessionByKey(key);
      if (row !== null) rows.push(row);
    }
    return rows;
  }
}

const SESSION_KEY = /^[^\s\p{C}](?:[^\p{C}]{0,198}[^\s\p{C}])?$/u;

function checkKey(field: string, key: string): void {
  if (!SESSION_KEY.test(key))
    throw new BadInput(field, "a session key is 1 to 200 printable characters, without blanks at its ends");
  if (looksLikeSessionId(key)) throw new BadInput(field, `${key} has the form of a session id`);
}

/** Compares only the options that the caller gave. */
function assertSameSession(found: SessionRecord, wanted: NewSession, given: SessionOptions): void {
  for (const field of Object.keys(given) as (keyof SessionOptions)[])
    if (given[field] !== undefined && JSON.stringify(found[field]) !== JSON.stringify(wanted[field]))
      throw new SessionTaken(wanted.key, `an open session has it, with another ${field}`);
  // The same keys may belong to other sessions now.
  if (!wanted.lineage.every((id) => found.lineage.includes(id)))
    throw new SessionTaken(wanted.key, "an open session has it, with other ancestors");
}
