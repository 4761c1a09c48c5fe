import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { defaults } from "../../defaults.js";
import { SessionStorageFull, TooManyRequests } from "../../errors.js";
import { type Requester, sessionIdOf } from "../../sessions/requester.js";
import type { SessionStore } from "../../store/sessions/contract.js";

/**
 * Limits the connections of listeners that accept tokens. A connection belongs to no one until its first request; beyond
 * `connections` of such connections the oldest is closed. Afterwards it counts for its session. The operator's
 * connections are not counted and never closed.
 */
export class ConnectionLimiter {
  readonly #unidentified = new Set<Duplex>();
  readonly #sessionOf = new Map<Duplex, string>();
  readonly #counts = new Map<string, number>();
  readonly #all: number;
  readonly #perSession: number;

  constructor(all: number = defaults.connections, perSession: number = defaults.sessionConnections) {
    this.#all = all;
    this.#perSession = perSession;
  }

  watch(server: Server): void {
    server.on("connection", (socket) => {
      this.#unidentified.add(socket);
      socket.once("close", () => this.#forget(socket));
      const [oldest] = this.#unidentified;
      if (this.#unidentified.size <= this.#all || oldest === undefined) return;
      this.#unidentified.delete(oldest);
      oldest.destroy();
    });
  }

  /** Assigns a connection to the requester of its first request. Throws TooManyRequests beyond a limit. */
  assign(socket: Duplex, requester: Requester): void {
    const sessionId = sessionIdOf(requester);
    if (sessionId !== null && this.#sessionOf.get(socket) === sessionId) return;
    this.#forget(socket);
    if (sessionId === null) return;
    const count = this.#counts.get(sessionId) ?? 0;
    if (count >= this.#perSession || this.#sessionOf.size >= this.#all)
      throw new TooManyRequests(
        count >= this.#perSession
          ? `${this.#perSession} connections`
          : `${this.#all} connections of all sessions`,
        { close: true },
      );
    this.#sessionOf.set(socket, sessionId);
    this.#counts.set(sessionId, count + 1);
  }

  #forget(socket: Duplex): void {
    this.#unidentified.delete(socket);
    const sessionId = this.#sessionOf.get(socket);
    if (sessionId === undefined) return;
    this.#sessionOf.delete(socket);
    const left = (this.#counts.get(sessionId) ?? 1) - 1;
    if (left > 0) this.#counts.set(sessionId, left);
    else this.#counts.delete(sessionId);
  }
}

interface ConnectionQueue {
  readonly waiting: (() => Promise<void>)[];
  busy: boolean;
  paused: boolean;
}

/** Requests read ahead on one connection: Node parses as many as arrive together. */
const READ_AHEAD = 32;

/**
 * Requests of one connection are handled one after the other, with a turn of the event loop in between, so that thousands
 * that arrive together do not keep other connections waiting and are not all read at once.
 */
export class RequestPipelines {
  readonly #queues = new WeakMap<Socket, ConnectionQueue>();

  /** `work` must not reject. */
  add(socket: Socket, work: () => Promise<void>): void {
    const queue = this.#queues.get(socket) ?? { waiting: [], busy: false, paused: false };
    this.#queues.set(socket, queue);
    queue.waiting.push(work);
    if (!queue.busy) this.#next(socket, queue);
    else if (queue.waiting.length >= READ_AHEAD && !queue.paused) {
      queue.paused = true;
      socket.pause();
    }
  }

  #next(socket: Socket, queue: ConnectionQueue): void {
    const work = queue.waiting.shift();
    queue.busy = work !== undefined;
    if (queue.paused && queue.waiting.length < READ_AHEAD / 2) {
      queue.paused = false;
      socket.resume();
    }
    if (work !== undefined) void work().then(() => setImmediate(() => this.#next(socket, queue)));
  }
}

/** A token bucket per requester. */
export class RateLimiter {
  readonly perSecond: number;
  readonly #burst: number;
  readonly #buckets = new Map<string, { tokens: number; at: number }>();

  constructor(perSecond: number, burst: number) {
    this.perSecond = perSecond;
    this.#burst = burst;
  }

  tryTake(who: string, now = performance.now()): boolean {
    let bucket = this.#buckets.get(who);
    if (bucket === undefined) {
      // A bucket that is full again need not be kept.
      if (this.#buckets.size >= MAX_BUCKETS) this.#evictFull(now);
      bucket = { tokens: this.#burst, at: now };
      this.#buckets.set(who, bucket);
    }
    const tokens = Math.min(this.#burst, bucket.tokens + ((now - bucket.at) / 1000) * this.perSecond);
    bucket.tokens = Math.max(0, tokens - 1);
    bucket.at = now;
    return tokens >= 1;
  }

  #evictFull(now: number): void {
    const fullAfterMs = (this.#burst / this.perSecond) * 1000;
    for (const [who, { at }] of this.#buckets) if (now - at > fullAfterMs) this.#buckets.delete(who);
  }
}

const MAX_BUCKETS = 1_000;

/** The rate limits of one listener: one per session, and a higher one for the operator. */
export class RequestRateLimiter {
  readonly #operator = new RateLimiter(defaults.operatorRequestsPerSecond, defaults.operatorRequestBurst);
  readonly #sessions = new RateLimiter(defaults.requestsPerSecond, defaults.requestBurst);

  /** Null: the request is within the limit; otherwise the limit per second. */
  tryTake({ kind, actor }: Requester): number | null {
    const limiter = kind === "operator" ? this.#operator : this.#sessions;
    return limiter.tryTake(actor) ? null : limiter.perSecond;
  }
}

/**
 * Limits the size of the records that are stored for one session. The size is measured in the store from time to time;
 * records added in between are estimated.
 */
export class SessionStorageQuota {
  readonly #store: Pick<SessionStore, "storedBytesOfSession">;
  readonly #known = new Map<string, { readonly at: number; bytes: number }>();

  constructor(store: Pick<SessionStore, "storedBytesOfSession">) {
    this.#store = store;
  }

  /** Rejects with SessionStorageFull. Counts one more record. */
  async assertRoom(requester: Requester): Promise<void> {
    if (requester.kind === "operator") return;
    const { id } = requester.session;
    const now = performance.now();
    for (const [each, { at }] of this.#known)
      if (now - at > defaults.sessionStoredMaxAgeMs) this.#known.delete(each);
    const known = this.#known.get(id) ?? { at: now, bytes: await this.#store.storedBytesOfSession(id) };
    this.#known.set(id, known);
    if (known.bytes > defaults.sessionStoredBytes)
      throw new SessionStorageFull(id, defaults.sessionStoredBytes);
    known.bytes += defaults.labelsBytes;
  }
}
