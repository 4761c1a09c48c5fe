import type { Clock, Timer } from "../../async/clock.js";
import { deferred, type Deferred } from "../../async/deferred.js";
import { type AcpClosed, AcpRefused, AcpTimeout } from "../../errors.js";
import { errorText, isObject, type RpcId, type RpcOutcome } from "./message.js";

/**
 * A request that was sent and not answered. It can be stored and passed to the connection of the next gateway process:
 * for that, the connection's clock must continue over restarts (see `hostClock`).
 */
export interface PendingRequest {
  readonly id: number;
  readonly method: string;
  readonly sentAt: number;
  /** Null: none. */
  readonly deadline: number | null;
  /** Close the connection when the deadline passes. */
  readonly fatal: boolean;
}

interface PendingEntry {
  readonly request: PendingRequest;
  readonly answer: Deferred<unknown>;
  readonly timer: Timer | null;
}

/** The request that an answer belongs to, or why there is none. */
type AnswerMatch = PendingRequest | "answered-twice" | "late" | "unmatched";

/** Longer timers would fire at once, because Node keeps delays in 32 bits. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Ids of finished requests, to distinguish late and repeated answers from unmatched ones. */
const REMEMBERED_IDS = 1_000;

/** Requests without an answer, each with its deadline. */
export class PendingRequests {
  readonly #clock: Clock;
  readonly #onFatal: (error: AcpTimeout) => void;
  readonly #pending = new Map<RpcId, PendingEntry>();
  readonly #finished = new Map<RpcId, "answered-twice" | "late">();
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
    return [...this.#pending.values()].map(({ request }) => request);
  }

  add(method: string, deadlineMs: number | null, fatal: boolean): PendingRequest {
    const sentAt = this.#clock.now();
    const deadline = deadlineMs === null ? null : sentAt + deadlineMs;
    const request = { id: this.#nextId++, method, sentAt, deadline, fatal };
    this.#add(request);
    return request;
  }

  /** Rejects if the request was refused or timed out, or the connection closed. */
  answerTo(id: number): Promise<unknown> {
    const waiting = this.#pending.get(id);
    if (waiting === undefined) return Promise.reject(new Error(`request ${id} is not pending`));
    return waiting.answer.promise;
  }

  /** Finds the request of an answer, and stops its deadline: the answer arrived in time. */
  match(id: RpcId): AnswerMatch {
    const waiting = this.#pending.get(id);
    waiting?.timer?.cancel();
    return waiting?.request ?? this.#finished.get(id) ?? "unmatched";
  }

  settle({ id, method }: PendingRequest, outcome: RpcOutcome): void {
    const waiting = this.#remove(id);
    if (waiting === null) return;
    this.#remember(id, "answered-twice");
    if ("error" in outcome) {
      return waiting.answer.reject(new AcpRefused(method, outcome.error.code, errorText(outcome.error)));
    }
    waiting.answer.resolve(outcome.result);
  }

  fail(id: RpcId, error: unknown): void {
    this.#remove(id)?.answer.reject(error);
  }

  failAll(error: AcpClosed): void {
    for (const id of [...this.#pending.keys()]) this.fail(id, error);
  }

  #add(request: PendingRequest): void {
    this.#pending.set(request.id, { request, answer: deferred<unknown>(), timer: this.#startTimer(request) });
  }

  #startTimer({ id, method, sentAt, deadline, fatal }: PendingRequest): Timer | null {
    if (deadline === null) return null;
    const left = Math.max(0, Math.min(deadline - this.#clock.now(), MAX_TIMER_MS));
    return this.#clock.setTimer(left, () => {
      const error = new AcpTimeout(method, deadline - sentAt);
      this.fail(id, error);
      this.#remember(id, "late");
      if (fatal) this.#onFatal(error);
    });
  }

  #remove(id: RpcId): PendingEntry | null {
    const waiting = this.#pending.get(id) ?? null;
    waiting?.timer?.cancel();
    this.#pending.delete(id);
    return waiting;
  }

  #remember(id: RpcId, status: "answered-twice" | "late"): void {
    this.#finished.set(id, status);
    if (this.#finished.size <= REMEMBERED_IDS) return;
    for (const oldest of this.#finished.keys()) {
      this.#finished.delete(oldest);
      break;
    }
  }
}

/** Fields that are used without further checks. */
const requiredFields: Readonly<
  Record<string, { readonly field: string; readonly type: "number" | "string" }>
> = {
  initialize: { field: "protocolVersion", type: "number" },
  "session/new": { field: "sessionId", type: "string" },
  "session/fork": { field: "sessionId", type: "string" },
  "session/prompt": { field: "stopReason", type: "string" },
};

/** The fault of a result; null: none. */
export function invalidResult(method: string, result: unknown): string | null {
  const required = requiredFields[method];
  if (required === undefined) return null;
  if (isObject(result) && typeof result[required.field] === required.type) return null;
  return `no ${required.field}`;
}
