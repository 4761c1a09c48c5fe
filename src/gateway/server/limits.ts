import type { Server } from "node:http";
import type { Duplex } from "node:stream";
import { defaults } from "../../defaults.js";
import { TooManyRequests } from "../../errors.js";
import { sessionIdOf, type Requester } from "../../sessions/requester.js";

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
