import { defaults } from "../../defaults.js";
import { TooManyRequests, TooManyStreams } from "../../errors.js";
import type { Requester } from "../../sessions/requester.js";

/** The requests and streams of one session that are under way. */
interface SessionQueue {
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
  countBody(bytes: number): void;
  /** Counts bytes of its answer. */
  countAnswer(bytes: number): void;
}

interface AdmissionLimits {
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
export class AdmissionControl {
  readonly #limits: AdmissionLimits;
  /** In order of rotation: a queue moves to the end when its work is started. */
  readonly #queues = new Map<string, SessionQueue>();
  #working = 0;
  #operatorWork = 0;
  #scheduled = false;
  #paceTimer: NodeJS.Timeout | null = null;

  constructor(limits: Partial<AdmissionLimits> = {}) {
    this.#limits = { ...LIMITS, ...limits };
  }

  /** Counts a request until it is disposed of. Throws TooManyRequests. */
  request(requester: Requester): CountedRequest {
    if (requester.kind === "operator") return NOT_COUNTED;
    const { id } = requester.session;
    const sessionQueue = this.#queueOf(id);
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
      sessionQueue.bytes += bytes;
    };
    return {
      countBody: (bytes) => {
        if (sessionQueue.bytes + bytes > limit)
          throw new TooManyRequests(`requests and unread answers of ${limit} bytes`);
        hold(bytes);
      },
      countAnswer: hold,
      [Symbol.dispose]: () => {
        over = true;
        sessionQueue.bytes -= held;
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
    if (requester.kind === "operator") return this.#runForOperator(work);
    const sessionQueue = this.#queueOf(requester.session.id);
    return new Promise((resolve, reject) => {
      sessionQueue.queue.push(() => work().then(resolve, reject));
      this.#schedule();
    });
  }

  /** While the operator's work is under way, for at most `operatorFirstMs`, work of sessions is started once per `paceMs`. */
  async #runForOperator<Result>(work: () => Promise<Result>): Promise<Result> {
    this.#operatorWork += 1;
    const release = once(() => {
      this.#operatorWork -= 1;
      if (this.#operatorWork === 0) this.#startHeldBack();
    });
    const timer = setTimeout(release, defaults.operatorFirstMs);
    try {
      return await work();
    } finally {
      clearTimeout(timer);
      release();
    }
  }

  #count(requester: Requester, what: "requests" | "streams", refusal: (limit: number) => Error): Disposable {
    if (requester.kind === "operator") return NOT_COUNTED;
    const { id } = requester.session;
    const sessionQueue = this.#queueOf(id);
    if (sessionQueue[what] >= this.#limits[what]) throw refusal(this.#limits[what]);
    sessionQueue[what] += 1;
    return {
      [Symbol.dispose]: once(() => {
        sessionQueue[what] -= 1;
        this.#forget(id, sessionQueue);
        this.#schedule();
      }),
    };
  }

  #queueOf(sessionId: string): SessionQueue {
    const sessionQueue = this.#queues.get(sessionId) ?? { queue: [], requests: 0, streams: 0, bytes: 0 };
    this.#queues.set(sessionId, sessionQueue);
    return sessionQueue;
  }

  #forget(sessionId: string, sessionQueue: SessionQueue): void {
    const { queue, requests, streams, bytes } = sessionQueue;
    if (queue.length + requests + streams + bytes === 0 && this.#queues.get(sessionId) === sessionQueue)
      this.#queues.delete(sessionId);
  }

  /** Starts work in a later turn of the event loop, so that requests that the operator sent meanwhile come first. */
  #schedule(): void {
    if (this.#scheduled || this.#working >= this.#limits.working) return;
    this.#scheduled = true;
    if (this.#operatorWork > 0)
      this.#paceTimer = setTimeout(() => this.#startScheduled(), this.#limits.paceMs);
    else setImmediate(() => this.#startScheduled());
  }

  /** Starts the work that was held back for the operator. */
  #startHeldBack(): void {
    if (this.#paceTimer === null) return;
    clearTimeout(this.#paceTimer);
    this.#paceTimer = null;
    setImmediate(() => this.#startScheduled());
  }

  #startScheduled(): void {
    this.#scheduled = false;
    this.#paceTimer = null;
    this.#startNext();
  }

  #startNext(): void {
    for (const [sessionId, sessionQueue] of this.#queues) {
      // No more work is started for a session that does not read its answers.
      const work = sessionQueue.bytes > this.#limits.bytes ? undefined : sessionQueue.queue.shift();
      if (work === undefined) continue;
      this.#queues.delete(sessionId);
      this.#queues.set(sessionId, sessionQueue);
      this.#start(work, () => this.#forget(sessionId, sessionQueue));
      this.#schedule();
      return;
    }
  }

  #start(work: () => Promise<void>, done: () => void): void {
    this.#working += 1;
    const release = once(() => {
      this.#working -= 1;
      clearTimeout(timer);
      this.#schedule();
    });
    const timer = setTimeout(release, this.#limits.slotMs);
    void work().finally(() => {
      release();
      done();
    });
  }
}

/** A function that calls `act` the first time only. */
function once(act: () => void): () => void {
  let done = false;
  return () => {
    if (done) return;
    done = true;
    act();
  };
}

/** Counts nothing: the requests and streams of the operator are not limited. */
export const NOT_COUNTED: CountedRequest = {
  countBody: () => undefined,
  countAnswer: () => undefined,
  [Symbol.dispose]: () => undefined,
};
