import { type Clock, systemClock } from "../async/clock.js";
import { deferred } from "../async/deferred.js";
import { defaults } from "../defaults.js";
import { errorMessage } from "../home/errno.js";
import type { NotificationTarget, OutboxEntry } from "../model/outbox.js";
import type { OutboxResult, TaskStore } from "../store/tasks/contract.js";
import { singleLine } from "../text/truncate.js";
import { type Deliver, DeliveryFailed, type DeliveryReceipt, nextAttempt } from "./delivery-attempt.js";
import { markRepeated } from "./notification-text.js";

interface NotifierOptions {
  readonly store: Pick<TaskStore, "claimOutbox" | "settleOutbox" | "nextOutboxDelay" | "releaseOutbox">;
  readonly deliver: Deliver;
  /** Unique among running notifiers. Entries that an earlier notifier of this name had claimed are released at start. */
  readonly owner: string;
  readonly clock?: Clock;
  /** Called when the store fails; the operation is retried. */
  readonly onStoreError?: (what: string, cause: unknown) => void;
  /** Called when the result of an attempt is stored. */
  readonly onSettled?: (status: OutboxResult["status"]) => void;
  readonly limits?: Partial<NotifierLimits>;
}

export const defaultNotifierLimits = {
  concurrency: defaults.deliveriesAtOnce,
  attemptMs: defaults.deliveryMs,
  leaseMs: defaults.deliveryLeaseMs,
  pollMs: defaults.deliveryPollMs,
  retryMs: defaults.deliveryRetryMs,
  maxRetryMs: defaults.deliveryRetryMostMs,
  totalMs: defaults.deliveryInAllMs,
  maxUnknownResults: defaults.deliveryUnheardMost,
  slowMs: defaults.deliverySlowMs,
};

export type NotifierLimits = Readonly<Record<keyof typeof defaultNotifierLimits, number>>;

/** An entry may be due while another notifier has claimed it, so a due entry does not end the pause at once. */
const MIN_PAUSE_MS = 100;
/** While most places are taken, freed ones are refilled together: a claim costs as much for one entry as for many. */
const BATCH_WAIT_MS = 5;
/** Pause after a failure of the store. */
const RETRY_MS = 1_000;
/** Time for the running attempts to finish when the notifier stops; then they count as failed. */
const STOP_TIMEOUT_MS = 2_000;

/** Sends the entries of the outbox until each is delivered or has finally failed. */
export class Notifier {
  readonly #options: NotifierOptions;
  readonly #clock: Clock;
  readonly #limits: NotifierLimits;
  readonly #inFlight = new Map<Promise<void>, OutboxEntry>();
  /** Channels whose last attempt was slow. Together they get at most half of the places. */
  readonly #slowChannels = new Set<string>();
  readonly #stopping = new AbortController();
  readonly #attempts = new Set<AbortController>();
  #woken = deferred<void>();
  /** False: no entry waited when the store was last asked, and none was added here since. */
  #mayBeDue = true;
  #running: Promise<void> | null = null;

  constructor(options: NotifierOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#limits = { ...defaultNotifierLimits, ...options.limits };
  }

  start(): void {
    this.#running ??= this.#runLoop();
  }

  /** Call when an entry was added. */
  wake(): void {
    this.#mayBeDue = true;
    this.#woken.resolve();
  }

  /** Starts no more attempts, and resolves when none is running. The next notifier continues. */
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
    await this.#retryOnStoreError("outbox entries of an earlier gateway", () => store.releaseOutbox(owner));
    while (!this.#stopping.signal.aborted) {
      this.#woken = deferred<void>();
      if (2 * this.#inFlight.size > this.#limits.concurrency) await this.#clock.sleep(BATCH_WAIT_MS);
      const pauseMs = await this.#claimDue();
      if (pauseMs > 0) await this.#clock.sleep(pauseMs, this.#woken.promise);
    }
    await Promise.all(this.#inFlight.keys());
  }

  /** Starts the due entries. Resolves with the pause before the next call, unless `wake` ends it. */
  async #claimDue(): Promise<number> {
    const { concurrency, pollMs } = this.#limits;
    const limit = concurrency - this.#inFlight.size;
    // The end of each attempt calls `wake`.
    if (limit === 0) return pollMs;
    const slow = [...this.#slowChannels];
    const openToAll =
      slow.length === 0 ? limit : Math.min(limit, Math.ceil(concurrency / 2) - this.#slowInFlight());
    const { store } = this.#options;
    try {
      // A claim takes several statements. This one shows whether another gateway has added an entry.
      if (!this.#mayBeDue && (await store.nextOutboxDelay()) === null) return pollMs;
      this.#mayBeDue = false;
      const claimed = await this.#claim(openToAll, []);
      const more = slow.length === 0 ? 0 : await this.#claim(limit - claimed, slow);
      if (claimed + more > 0) {
        this.#mayBeDue = true;
        return 0;
      }
      const dueIn = await store.nextOutboxDelay(openToAll > 0 ? [] : slow);
      this.#mayBeDue ||= dueIn !== null || slow.length > 0;
      return Math.min(Math.max(dueIn ?? pollMs, MIN_PAUSE_MS), pollMs);
    } catch (cause) {
      this.#mayBeDue = true;
      this.#options.onStoreError?.("due outbox entries", cause);
      return RETRY_MS;
    }
  }

  /** Resolves with the number of attempts started. */
  async #claim(limit: number, except: readonly string[]): Promise<number> {
    if (limit <= 0) return 0;
    const { owner, store } = this.#options;
    const { leaseMs } = this.#limits;
    const remainingMs = this.#leaseTimer(leaseMs);
    const claimed = await store.claimOutbox({ owner, leaseMs, limit, except });
    for (const entry of claimed) this.#startSending(entry, remainingMs);
    return claimed.length;
  }

  #slowInFlight(): number {
    return [...this.#inFlight.values()].filter(({ target }) => this.#slowChannels.has(channelOf(target)))
      .length;
  }

  /** The time left of a lease that starts now. The wall clock is read too, because it continues while the host sleeps. */
  #leaseTimer(ms: number): () => number {
    const [now, wall] = [this.#clock.now(), this.#clock.wall()];
    return () => ms - Math.max(this.#clock.now() - now, this.#clock.wall() - wall);
  }

  #startSending(entry: OutboxEntry, remainingMs: () => number): void {
    const sending = this.#send(entry, remainingMs).finally(() => {
      this.#inFlight.delete(sending);
      this.wake();
    });
    this.#inFlight.set(sending, entry);
  }

  async #send(entry: OutboxEntry, remainingMs: () => number): Promise<void> {
    const { store, onSettled } = this.#options;
    const startedAt = this.#clock.now();
    // The host or this process was suspended, or the store was slow: the lease may end during the attempt.
    if (remainingMs() < this.#limits.attemptMs) return;
    const sent =
      entry.unheard < this.#limits.maxUnknownResults ? this.#attempt(entry) : rejectTooManyUnknown(entry);
    const result = await sent.then(
      (receipt): OutboxResult => ({ ...receipt, at: this.#clock.wall() }),
      (error: unknown) => this.#failureResult(entry, error, this.#clock.now() - startedAt),
    );
    const settle = async (): Promise<void> => {
      if (await store.settleOutbox(entry, result)) onSettled?.(result.status);
    };
    await this.#retryOnStoreError("the result of a delivery", settle, remainingMs);
  }

  async #attempt({ target, notification, unheard }: OutboxEntry): Promise<DeliveryReceipt> {
    const attempt = new AbortController();
    const { signal } = attempt;
    const { attemptMs } = this.#limits;
    const why = `no answer within ${attemptMs} ms`;
    const late = (): void => attempt.abort(new DeliveryFailed(why, { resultUnknown: true }));
    const timer = this.#clock.setTimer(attemptMs, late, { keepAlive: true });
    const startedAt = this.#clock.now();
    const aborted = deferred<never>();
    // An attempt that ignores its signal is not awaited.
    signal.addEventListener("abort", () => aborted.reject(signal.reason), { once: true });
    this.#attempts.add(attempt);
    try {
      const message = unheard > 0 ? markRepeated(notification) : notification;
      return await Promise.race([this.#options.deliver(target, message, signal), aborted.promise]);
    } finally {
      this.#attempts.delete(attempt);
      timer.cancel();
      if (this.#clock.now() - startedAt < this.#limits.slowMs) this.#slowChannels.delete(channelOf(target));
      else if (target.kind === "channel") this.#slowChannels.add(target.channel);
    }
  }

  #failureResult(entry: OutboxEntry, cause: unknown, tookMs: number): OutboxResult {
    const { permanent, retryAfterMs, resultUnknown } =
      cause instanceof DeliveryFailed ? cause : new DeliveryFailed("");
    const error = singleLine(errorMessage(cause), defaults.taskErrorChars);
    const failure = { spentMs: entry.spentMs, tookMs, permanent, retryAfterMs };
    const next = nextAttempt(failure, this.#limits, (ms) => this.#clock.jitter(ms));
    const result = { error, unheard: resultUnknown };
    if (next !== null) return { status: "pending", ...result, ...next };
    return { status: "failed", ...result, spentMs: entry.spentMs + tookMs, at: this.#clock.wall() };
  }

  /** Retries while the store fails, until the lease ends or the notifier stops. */
  async #retryOnStoreError(
    what: string,
    work: () => Promise<unknown>,
    remainingMs = () => Infinity,
  ): Promise<void> {
    for (;;) {
      try {
        await work();
        return;
      } catch (cause) {
        this.#options.onStoreError?.(what, cause);
      }
      if (this.#stopping.signal.aborted || remainingMs() < RETRY_MS) return;
      await this.#clock.sleep(RETRY_MS);
    }
  }
}

/** A notification that crashes the gateway must not crash one gateway after the other. */
function rejectTooManyUnknown({ unheard }: OutboxEntry): Promise<never> {
  const why = `${unheard} attempts ended without a result; it may have arrived and is not sent again`;
  return Promise.reject(new DeliveryFailed(why, { permanent: true }));
}

/** Empty for a session: no channel has an empty name. */
function channelOf(target: NotificationTarget): string {
  return target.kind === "channel" ? target.channel : "";
}
