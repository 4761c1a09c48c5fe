import { defaults } from "../defaults.js";
import type { OutboxEntry } from "../model/outbox.js";
import type { OutboxResult, TaskStore } from "../store/tasks/store.js";
import { systemClock, type Clock } from "../async/clock.js";
import { deferred } from "../async/deferred.js";
import { DeliveryFailed, type Deliverer, type DeliveryReceipt, type NotificationTarget } from "./delivery.js";
import { nextAttempt, type RetryLimits } from "./retry.js";
import { markRepeated } from "./notification-text.js";
import { singleLine } from "../text/truncate.js";

export interface NotifierOptions {
  readonly store: Pick<TaskStore, "claimOutbox" | "settleOutbox" | "nextOutboxDelay" | "releaseOutbox">;
  readonly deliverer: Deliverer;
  /** Nobody else of this name is at work: what a former one was sending is sent anew at once. */
  readonly owner: string;
  readonly clock?: Clock;
  /** The store does not answer; it is asked again. */
  readonly onStoreError?: (what: string, cause: unknown) => void;
  /** What came of an attempt is written down. */
  readonly onSettled?: (status: OutboxResult["status"]) => void;
  readonly limits?: Partial<NotifierLimits>;
}

export interface NotifierLimits extends RetryLimits {
  readonly concurrency: number;
  readonly attemptMs: number;
  readonly leaseMs: number;
  readonly pollMs: number;
  readonly maxUnknownResults: number;
  readonly slowMs: number;
}

export const defaultNotifierLimits: NotifierLimits = {
  concurrency: defaults.deliveriesAtOnce,
  attemptMs: defaults.deliveryMs,
  leaseMs: defaults.deliveryLeaseMs,
  pollMs: defaults.deliveryLookMs,
  retryMs: defaults.deliveryRetryMs,
  maxRetryMs: defaults.deliveryRetryMostMs,
  totalMs: defaults.deliveryInAllMs,
  maxUnknownResults: defaults.deliveryUnheardMost,
  slowMs: defaults.deliverySlowMs,
};

/** Something may be due and not to be had: another is at it. Not asked for again in a loop. */
const MIN_PAUSE_MS = 100;
/** While most are under way, those that end meanwhile are replaced together: a claim costs as much for one as for many. */
const BATCH_WAIT_MS = 5;
/** A store that is away. */
const RETRY_MS = 1_000;
/** Attempts that are under way when it is stopped have this long; then they count as failed. */
const STOP_TIMEOUT_MS = 2_000;

/** Sends what is in the outbox, each message to each target, until it is delivered or given up. */
export class Notifier {
  readonly #options: NotifierOptions;
  readonly #clock: Clock;
  readonly #limits: NotifierLimits;
  readonly #inFlight = new Map<Promise<void>, OutboxEntry>();
  /** Channels whose receiver lets one wait, or has at the last try: together they have half of the places. */
  readonly #slowChannels = new Set<string>();
  readonly #stopping = new AbortController();
  readonly #attempts = new Set<AbortController>();
  #woken = deferred<void>();
  #running: Promise<void> | null = null;

  constructor(options: NotifierOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#limits = { ...defaultNotifierLimits, ...options.limits };
  }

  start(): void {
    this.#running ??= this.#runLoop();
  }

  /** There is something new. */
  wake(): void {
    this.#woken.resolve();
  }

  /** Begins nothing more; resolves when nothing is under way. What was not delivered will be by whoever comes next. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.wake();
    const late = this.#clock.setTimer(STOP_TIMEOUT_MS, () => {
      for (const attempt of this.#attempts)
        attempt.abort(new DeliveryFailed("the gateway was stopped", { resultUnknown: true }));
    });
    await this.#running;
    late.cancel();
  }

  async #runLoop(): Promise<void> {
    const { store, owner } = this.#options;
    await this.#retryWhileStoreAway("what a former gateway was sending", () => store.releaseOutbox(owner));
    while (!this.#stopping.signal.aborted) {
      this.#woken = deferred<void>();
      if (2 * this.#inFlight.size > this.#limits.concurrency) await this.#clock.sleep(BATCH_WAIT_MS);
      const pauseMs = await this.#claimDue();
      if (pauseMs > 0) await this.#clock.sleep(pauseMs, this.#woken.promise);
    }
    await Promise.all(this.#inFlight.keys());
  }

  /** How long to wait before the next, unless there is a hint. */
  async #claimDue(): Promise<number> {
    const { concurrency, pollMs } = this.#limits;
    const limit = concurrency - this.#inFlight.size;
    // Each of them is a hint when it is over.
    if (limit === 0) return pollMs;
    const slow = [...this.#slowChannels];
    const forAll =
      slow.length === 0 ? limit : Math.min(limit, Math.ceil(concurrency / 2) - this.#slowInFlight());
    try {
      const claimed = await this.#claim(forAll, []);
      const more = slow.length === 0 ? 0 : await this.#claim(limit - claimed, slow);
      if (claimed + more > 0) return 0;
      const dueIn = (await this.#options.store.nextOutboxDelay(forAll > 0 ? [] : slow)) ?? pollMs;
      return Math.min(Math.max(dueIn, MIN_PAUSE_MS), pollMs);
    } catch (cause) {
      this.#options.onStoreError?.("the messages that wait", cause);
      return RETRY_MS;
    }
  }

  /** How many were begun. */
  async #claim(limit: number, except: readonly string[]): Promise<number> {
    if (limit <= 0) return 0;
    const { owner, store } = this.#options;
    const { leaseMs } = this.#limits;
    const remainingMs = this.#leaseTimer(leaseMs);
    const claimed = await store.claimOutbox({ owner, leaseMs, limit, except });
    for (const entry of claimed) this.#startSending(entry, remainingMs);
    return claimed.length;
  }

  /** By slow ones. */
  #slowInFlight(): number {
    return [...this.#inFlight.values()].filter(({ target }) => this.#slowChannels.has(channelOf(target)))
      .length;
  }

  /** How much is left of one that begins now. Only the wall clock goes on while the host sleeps. */
  #leaseTimer(ms: number): () => number {
    const [now, wall] = [this.#clock.now(), this.#clock.wall()];
    return () => ms - Math.max(this.#clock.now() - now, this.#clock.wall() - wall);
  }

  #startSending(entry: OutboxEntry, remainingMs: () => number): void {
    const going = this.#send(entry, remainingMs).finally(() => {
      this.#inFlight.delete(going);
      this.wake();
    });
    this.#inFlight.set(going, entry);
  }

  async #send(entry: OutboxEntry, remainingMs: () => number): Promise<void> {
    const { store, onSettled } = this.#options;
    const began = this.#clock.now();
    // The host or this process slept, or the store was slow: by the time it is sent, another may be sending it.
    if (remainingMs() < this.#limits.attemptMs) return;
    const sent =
      entry.unheard < this.#limits.maxUnknownResults ? this.#attempt(entry) : rejectTooManyUnknown(entry);
    const result = await sent.then(
      (receipt): OutboxResult => ({ ...receipt, at: this.#clock.wall() }),
      (error: unknown) => this.#failureResult(entry, error, this.#clock.now() - began),
    );
    const settle = async (): Promise<void> => {
      if (await store.settleOutbox(entry, result)) onSettled?.(result.status);
    };
    await this.#retryWhileStoreAway("what came of a message", settle, remainingMs);
  }

  async #attempt({ target, notification, unheard }: OutboxEntry): Promise<DeliveryReceipt> {
    const attempt = new AbortController();
    const { signal } = attempt;
    const { attemptMs } = this.#limits;
    const why = `there was no answer within ${attemptMs} ms`;
    const late = (): void => attempt.abort(new DeliveryFailed(why, { resultUnknown: true }));
    const timer = this.#clock.setTimer(attemptMs, late, { keepAlive: true });
    const began = this.#clock.now();
    const aborted = deferred<never>();
    // A courier that does not listen is not waited for.
    signal.addEventListener("abort", () => aborted.reject(signal.reason), { once: true });
    this.#attempts.add(attempt);
    try {
      const message = unheard > 0 ? markRepeated(notification) : notification;
      return await Promise.race([this.#options.deliverer.deliver(target, message, signal), aborted.promise]);
    } finally {
      this.#attempts.delete(attempt);
      timer.cancel();
      if (this.#clock.now() - began < this.#limits.slowMs) this.#slowChannels.delete(channelOf(target));
      else if (target.kind === "channel") this.#slowChannels.add(target.channel);
    }
  }

  #failureResult(entry: OutboxEntry, cause: unknown, tookMs: number): OutboxResult {
    const { permanent, retryAfterMs, resultUnknown } =
      cause instanceof DeliveryFailed
        ? cause
        : { permanent: false, retryAfterMs: null, resultUnknown: false };
    const why = cause instanceof Error ? cause.message : String(cause);
    const error = singleLine(why, defaults.taskErrorChars);
    const failure = { spentMs: entry.spentMs, tookMs, permanent, retryAfterMs };
    const next = nextAttempt(failure, this.#limits, (ms) => this.#clock.jitter(ms));
    if (next !== null) return { status: "pending", error, unheard: resultUnknown, ...next };
    return {
      status: "failed",
      error,
      unheard: resultUnknown,
      spentMs: entry.spentMs + tookMs,
      at: this.#clock.wall(),
    };
  }

  /** Again and again while the store is away, until it is too late or this is stopped. */
  async #retryWhileStoreAway(
    what: string,
    ask: () => Promise<unknown>,
    remainingMs = () => Infinity,
  ): Promise<void> {
    for (;;) {
      try {
        await ask();
        return;
      } catch (cause) {
        this.#options.onStoreError?.(what, cause);
      }
      if (this.#stopping.signal.aborted || remainingMs() < RETRY_MS) return;
      await this.#clock.sleep(RETRY_MS);
    }
  }
}

/** One that nobody survives sending must not end one gateway after the other. */
function rejectTooManyUnknown({ unheard }: OutboxEntry): Promise<never> {
  const why = `whoever was sending it was gone before it could say what came of it, ${unheard} times; it may have arrived, and is not sent again`;
  return Promise.reject(new DeliveryFailed(why, { permanent: true }));
}

/** No channel has an empty name. */
function channelOf(target: NotificationTarget): string {
  return target.kind === "channel" ? target.channel : "";
}
