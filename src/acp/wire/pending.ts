import { type AcpClosed, AcpRefused, AcpTimeout } from "../../errors.js";
import type { Clock, Timer } from "../../supervisor/clock.js";
import { type Deferred, deferred } from "../../supervisor/deferred.js";
import { excerpt } from "./excerpt.js";
import type { Outcome, RpcId } from "./message.js";

/**
 * A request that has been sent and not answered. It can be kept, and given to the connection of the next process:
 * the times are those of the connection's clock, which must go on over restarts for that (see `hostClock`).
 */
export interface PendingRequest {
  readonly id: number;
  readonly method: string;
  readonly sentAt: number;
  /** Null: it has none. */
  readonly deadline: number | null;
  /** The connection is closed when it passes. */
  readonly fatal: boolean;
}

interface Waiting {
  readonly request: PendingRequest;
  readonly answer: Deferred<unknown>;
  readonly timer: Timer | null;
}

/** What an answer was to. */
export type Match = PendingRequest | "answered-twice" | "late" | "unmatched";

/** Longer timers fire at once (they are 32-bit). No request waits for a month. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Ids remembered after their end, to tell an answer that is late or doubled from one that nobody asked for. */
const REMEMBERED = 1_000;

/** The requests under way, each with its deadline. */
export class PendingRequests {
  readonly #clock: Clock;
  readonly #onFatal: (error: AcpTimeout) => void;
  readonly #waiting = new Map<RpcId, Waiting>();
  readonly #over = new Map<RpcId, "answered-twice" | "late">();
  #nextId: number;

  constructor(
    clock: Clock,
    restored: readonly PendingRequest[],
    firstId: number,
    onFatal: (error: AcpTimeout) => void,
  ) {
    this.#clock = clock;
    this.#onFatal = onFatal;
    this.#nextId = Math.max(firstId, ...restored.map(({ id }) => id + 1));
    for (const request of restored) this.#add(request);
  }

  get list(): readonly PendingRequest[] {
    return [...this.#waiting.values()].map(({ request }) => request);
  }

  add(method: string, deadlineMs: number | null, fatal: boolean): PendingRequest {
    const sentAt = this.#clock.now();
    const deadline = deadlineMs === null ? null : sentAt + deadlineMs;
    const request = { id: this.#nextId++, method, sentAt, deadline, fatal };
    this.#add(request);
    return request;
  }

  /** Rejects when it was refused, timed out, or the connection closed. */
  answerTo(id: number): Promise<unknown> {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return Promise.reject(new Error(`no request ${id} is under way`));
    return waiting.answer.promise;
  }

  /** What an answer that has come is to. It came in time, however long it takes to be kept. */
  meet(id: RpcId): Match {
    const waiting = this.#waiting.get(id);
    waiting?.timer?.cancel();
    return waiting?.request ?? this.#over.get(id) ?? "unmatched";
  }

  settle({ id, method }: PendingRequest, outcome: Outcome): void {
    const waiting = this.#take(id);
    if (waiting === null) return;
    this.#remember(id, "answered-twice");
    if ("error" in outcome) {
      const { code, message } = outcome.error;
      return waiting.answer.reject(new AcpRefused(method, code, excerpt(message)));
    }
    waiting.answer.resolve(outcome.result);
  }

  fail(id: RpcId, error: unknown): void {
    this.#take(id)?.answer.reject(error);
  }

  failAll(error: AcpClosed): void {
    for (const id of [...this.#waiting.keys()]) this.fail(id, error);
  }

  #add(request: PendingRequest): void {
    this.#waiting.set(request.id, { request, answer: deferred<unknown>(), timer: this.#arm(request) });
  }

  #arm({ id, method, sentAt, deadline, fatal }: PendingRequest): Timer | null {
    if (deadline === null) return null;
    const left = Math.max(0, Math.min(deadline - this.#clock.now(), LONGEST_TIMER_MS));
    return this.#clock.after(left, () => {
      const error = new AcpTimeout(method, deadline - sentAt);
      this.fail(id, error);
      this.#remember(id, "late");
      if (fatal) this.#onFatal(error);
    });
  }

  #take(id: RpcId): Waiting | null {
    const waiting = this.#waiting.get(id) ?? null;
    waiting?.timer?.cancel();
    this.#waiting.delete(id);
    return waiting;
  }

  #remember(id: RpcId, how: "answered-twice" | "late"): void {
    this.#over.set(id, how);
    if (this.#over.size <= REMEMBERED) return;
    for (const oldest of this.#over.keys()) {
      this.#over.delete(oldest);
      break;
    }
  }
}
