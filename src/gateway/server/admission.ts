import { defaults } from "../../defaults.js";
import { TooManyRequests, TooManyStreams } from "../../errors.js";
import type { Requester } from "./requester.js";

/** The requests and streams of one session that are under way. */
interface Lane {
  readonly queue: (() => Promise<void>)[];
  /** Requests without a complete answer, queued ones included. */
  requests: number;
  streams: number;
  /** Bytes of request bodies and of unread answers. */
  bytes: number;
}

/** A request that was admitted. */
export interface CountedRequest extends Disposable {
  /** Counts bytes of its body. Throws TooManyRequests if its session has too many bytes at the same time. */
  take(bytes: number): void;
  /** Counts bytes of its answer. */
  give(bytes: number): void;
}

export interface AdmissionLimits {
  readonly requests: number;
  readonly streams: number;
  readonly bytes: number;
  readonly working: number;
  readonly slotMs: number;
  readonly paceMs: number;
}

const LIMITS: AdmissionLimits = {
  requests: defaults.sessionRequests,
  streams: defaults.sessionStreams,
  bytes: defaults.sessionBytesHeld,
  working: defaults.sessionsWorking,
  slotMs: defaults.sessionSlotMs,
  paceMs: defaults.sessionPaceMs,
};

/**
 * Decides when the requests of sessions are handled, so that the operator never waits behind them. The operator's work
 * starts at once. Work of sessions is queued per session and started in rotation, one per turn of the event loop. It
 * occupies one of `working` slots until it is done or `slotMs` have passed: longer work is assumed to wait for something else.
 */
export class Admission {
  readonly #limits: AdmissionLimits;
  /** In order of rotation: a lane moves to the end when its work is started. */
  readonly #lanes = new Map<string, Lane>();
  #working = 0;
  #first = 0;
  #scheduled = false;
  #paced: NodeJS.Timeout | null = null;

  constructor(limits: Partial<AdmissionLimits> = {}) {
    this.#limits = { ...LIMITS, ...limits };
  }

  /** Counts a request until it is disposed of. Throws TooManyRequests. */
  request(requester: Requester): CountedRequest {
    if (requester.kind === "operator") return { take: () => undefined, give: () => undefined, ...nothing };
    const { id } = requester.session;
    const lane = this.#lane(id);
    const limit = this.#limits.bytes;
    const counted = this.#count(
      requester,
      "requests",
      (most) => new TooManyRequests(`${most} unanswered requests`),
    );
    let held = 0;
    let over = false;
    const hold = (bytes: number): void => {
      if (over) return;
      held += bytes;
      lane.bytes += bytes;
    };
    return {
      take: (bytes) => {
        if (lane.bytes + bytes > limit)
          throw new TooManyRequests(`requests and unread answers of ${limit} bytes`);
        hold(bytes);
      },
      give: hold,
      [Symbol.dispose]: () => {
        over = true;
        lane.bytes -= held;
        held = 0;
        counted[Symbol.dispose]();
      },
    };
  }

  /** Counts a stream until it is disposed of. Throws TooManyStreams. */
  stream(requester: Requester): Disposable {
    return this.#count(requester, "streams", (limit) => new TooManyStreams(limit));
  }

  /** Does the work when it is the requester's turn. */
  run<Result>(requester: Requester, work: () => Promise<Result>): Promise<Result> {
    if (requester.kind === "operator") return this.#runFirst(work);
    const lane = this.#lane(requester.session.id);
    return new Promise((resolve, reject) => {
      lane.queue.push(() => work().then(resolve, reject));
      this.#schedule();
    });
  }

  /** While the operator's work is under way, for at most `operatorFirstMs`, work of sessions is started once per `paceMs`. */
  async #runFirst<Result>(work: () => Promise<Result>): Promise<Result> {
    this.#first += 1;
    let counted = true;
    const release = (): void => {
      if (!counted) return;
      counted = false;
      this.#first -= 1;
      if (this.#first === 0) this.#hasten();
    };
    const timer = setTimeout(release, defaults.operatorFirstMs);
    try {
      return await work();
    } finally {
      clearTimeout(timer);
      release();
    }
  }

  #count(requester: Requester, what: "requests" | "streams", refusal: (limit: number) => Error): Disposable {
    if (requester.kind === "operator") return nothing;
    const { id } = requester.session;
    const lane = this.#lane(id);
    if (lane[what] >= this.#limits[what]) throw refusal(this.#limits[what]);
    lane[what] += 1;
    let counted = true;
    return {
      [Symbol.dispose]: () => {
        if (!counted) return;
        counted = false;
        lane[what] -= 1;
        this.#forget(id, lane);
        this.#schedule();
      },
    };
  }

  #lane(sessionId: string): Lane {
    const lane = this.#lanes.get(sessionId) ?? { queue: [], requests: 0, streams: 0, bytes: 0 };
    this.#lanes.set(sessionId, lane);
    return lane;
  }

  #forget(sessionId: string, lane: Lane): void {
    const { queue, requests, streams, bytes } = lane;
    if (queue.length + requests + streams + bytes === 0 && this.#lanes.get(sessionId) === lane)
      this.#lanes.delete(sessionId);
  }

  /** Starts work in a later turn of the event loop, so that requests that the operator sent meanwhile come first. */
  #schedule(): void {
    if (this.#scheduled || this.#working >= this.#limits.working) return;
    this.#scheduled = true;
    if (this.#first > 0) this.#paced = setTimeout(() => this.#startScheduled(), this.#limits.paceMs);
    else setImmediate(() => this.#startScheduled());
  }

  /** Starts the work that was held back for the operator. */
  #hasten(): void {
    if (this.#paced === null) return;
    clearTimeout(this.#paced);
    this.#paced = null;
    setImmediate(() => this.#startScheduled());
  }

  #startScheduled(): void {
    this.#scheduled = false;
    this.#paced = null;
    this.#startNext();
  }

  #startNext(): void {
    for (const [sessionId, lane] of this.#lanes) {
      // No more work is started for a session that does not read its answers.
      const work = lane.bytes > this.#limits.bytes ? undefined : lane.queue.shift();
      if (work === undefined) continue;
      this.#lanes.delete(sessionId);
      this.#lanes.set(sessionId, lane);
      this.#start(work, () => this.#forget(sessionId, lane));
      this.#schedule();
      return;
    }
  }

  #start(work: () => Promise<void>, done: () => void): void {
    this.#working += 1;
    let held = true;
    const release = (): void => {
      if (!held) return;
      held = false;
      this.#working -= 1;
      clearTimeout(timer);
      this.#schedule();
    };
    const timer = setTimeout(release, this.#limits.slotMs);
    void work().finally(() => {
      release();
      done();
    });
  }
}

const nothing: Disposable = { [Symbol.dispose]: () => undefined };
