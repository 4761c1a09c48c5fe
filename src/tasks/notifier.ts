import { defaults } from "../defaults.js";
import type { OutboxEntry } from "../store/task-record.js";
import type { OutboxResult, TaskStore } from "../store/task-store.js";
import { systemClock, type Clock } from "../supervisor/clock.js";
import { deferred } from "../supervisor/deferred.js";
import { DeliveryFailed, type Courier, type Receipt, type Target } from "./notification.js";
import { nextAttempt, type RetryLimits } from "./retry.js";
import { repeated } from "./notice.js";
import { oneLine } from "./texts.js";

export interface NotifierOptions {
  readonly store: Pick<TaskStore, "claimOutbox" | "settleOutbox" | "outboxDueIn" | "releaseOutbox">;
  readonly courier: Courier;
  /** Nobody else of this name is at work: what a former one was sending is sent anew at once. */
  readonly owner: string;
  readonly clock?: Clock;
  /** The store does not answer; it is asked again. */
  readonly onTrouble?: (what: string, cause: unknown) => void;
  /** What came of an attempt is written down. */
  readonly onSettled?: (status: OutboxResult["status"]) => void;
  readonly limits?: Partial<NotifierLimits>;
}

export interface NotifierLimits extends RetryLimits {
  readonly atOnce: number;
  readonly attemptMs: number;
  readonly leaseMs: number;
  readonly lookMs: number;
  readonly unheardMost: number;
  readonly slowMs: number;
}

export const usualLimits: NotifierLimits = {
  atOnce: defaults.deliveriesAtOnce,
  attemptMs: defaults.deliveryMs,
  leaseMs: defaults.deliveryLeaseMs,
  lookMs: defaults.deliveryLookMs,
  retryMs: defaults.deliveryRetryMs,
  retryMostMs: defaults.deliveryRetryMostMs,
  inAllMs: defaults.deliveryInAllMs,
  unheardMost: defaults.deliveryUnheardMost,
  slowMs: defaults.deliverySlowMs,
};

/** Something may be due and not to be had: another is at it. Not asked for again in a loop. */
const LEAST_PAUSE_MS = 100;
/** While most are under way, those that end meanwhile are replaced together: a claim costs as much for one as for many. */
const TOGETHER_MS = 5;
/** A store that is away. */
const AGAIN_MS = 1_000;
/** Attempts that are under way when it is stopped have this long; then they count as failed. */
const STOP_MS = 2_000;

/** Sends what is in the outbox, each message to each target, until it is delivered or given up. */
export class Notifier {
  readonly #options: NotifierOptions;
  readonly #clock: Clock;
  readonly #limits: NotifierLimits;
  readonly #underWay = new Map<Promise<void>, OutboxEntry>();
  /** Channels whose receiver lets one wait, or has at the last try: together they have half of the places. */
  readonly #slow = new Set<string>();
  readonly #stopping = new AbortController();
  readonly #attempts = new Set<AbortController>();
  #hint = deferred<void>();
  #running: Promise<void> | null = null;

  constructor(options: NotifierOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#limits = { ...usualLimits, ...options.limits };
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** There is something new. */
  wake(): void {
    this.#hint.resolve();
  }

  /** Begins nothing more; resolves when nothing is under way. What was not delivered will be by whoever comes next. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.wake();
    const late = this.#clock.after(STOP_MS, () => {
      for (const attempt of this.#attempts)
        attempt.abort(new DeliveryFailed("the gateway was stopped", { unheard: true }));
    });
    await this.#running;
    late.cancel();
  }

  async #run(): Promise<void> {
    const { store, owner } = this.#options;
    await this.#asked("what a former gateway was sending", () => store.releaseOutbox(owner));
    while (!this.#stopping.signal.aborted) {
      this.#hint = deferred<void>();
      if (2 * this.#underWay.size > this.#limits.atOnce) await this.#clock.pause(TOGETHER_MS);
      const pauseMs = await this.#round();
      if (pauseMs > 0) await this.#clock.pause(pauseMs, this.#hint.promise);
    }
    await Promise.all(this.#underWay.keys());
  }

  /** How long to wait before the next, unless there is a hint. */
  async #round(): Promise<number> {
    const { atOnce, lookMs } = this.#limits;
    const limit = atOnce - this.#underWay.size;
    // Each of them is a hint when it is over.
    if (limit === 0) return lookMs;
    const slow = [...this.#slow];
    const forAll = slow.length === 0 ? limit : Math.min(limit, Math.ceil(atOnce / 2) - this.#held());
    try {
      const claimed = await this.#claim(forAll, []);
      const more = slow.length === 0 ? 0 : await this.#claim(limit - claimed, slow);
      if (claimed + more > 0) return 0;
      const dueIn = (await this.#options.store.outboxDueIn(forAll > 0 ? [] : slow)) ?? lookMs;
      return Math.min(Math.max(dueIn, LEAST_PAUSE_MS), lookMs);
    } catch (cause) {
      this.#options.onTrouble?.("the messages that wait", cause);
      return AGAIN_MS;
    }
  }

  /** How many were begun. */
  async #claim(limit: number, except: readonly string[]): Promise<number> {
    if (limit <= 0) return 0;
    const { owner, store } = this.#options;
    const { leaseMs } = this.#limits;
    const left = this.#lease(leaseMs);
    const claimed = await store.claimOutbox({ owner, leaseMs, limit, except });
    for (const entry of claimed) this.#begin(entry, left);
    return claimed.length;
  }

  /** By slow ones. */
  #held(): number {
    return [...this.#underWay.values()].filter(({ target }) => this.#slow.has(channelOf(target))).length;
  }

  /** How much is left of one that begins now. Only the wall clock goes on while the host sleeps. */
  #lease(ms: number): () => number {
    const [now, wall] = [this.#clock.now(), this.#clock.wall()];
    return () => ms - Math.max(this.#clock.now() - now, this.#clock.wall() - wall);
  }

  #begin(entry: OutboxEntry, left: () => number): void {
    const going = this.#send(entry, left).finally(() => {
      this.#underWay.delete(going);
      this.wake();
    });
    this.#underWay.set(going, entry);
  }

  async #send(entry: OutboxEntry, left: () => number): Promise<void> {
    const { store, onSettled } = this.#options;
    const began = this.#clock.now();
    // The host or this process slept, or the store was slow: by the time it is sent, another may be sending it.
    if (left() < this.#limits.attemptMs) return;
    const sent = entry.unheard < this.#limits.unheardMost ? this.#attempt(entry) : mayKill(entry);
    const result = await sent.then(
      (receipt): OutboxResult => ({ ...receipt, at: this.#clock.wall() }),
      (error: unknown) => this.#failed(entry, error, this.#clock.now() - began),
    );
    const settle = async (): Promise<void> => {
      if (await store.settleOutbox(entry, result)) onSettled?.(result.status);
    };
    await this.#asked("what came of a message", settle, left);
  }

  async #attempt({ target, notification, unheard }: OutboxEntry): Promise<Receipt> {
    const attempt = new AbortController();
    const { signal } = attempt;
    const { attemptMs } = this.#limits;
    const why = `there was no answer within ${attemptMs} ms`;
    const late = (): void => attempt.abort(new DeliveryFailed(why, { unheard: true }));
    const timer = this.#clock.after(attemptMs, late, { keepAlive: true });
    const began = this.#clock.now();
    const aborted = deferred<never>();
    // A courier that does not listen is not waited for.
    signal.addEventListener("abort", () => aborted.reject(signal.reason), { once: true });
    this.#attempts.add(attempt);
    try {
      const told = unheard > 0 ? repeated(notification) : notification;
      return await Promise.race([this.#options.courier.deliver(target, told, signal), aborted.promise]);
    } finally {
      this.#attempts.delete(attempt);
      timer.cancel();
      if (this.#clock.now() - began < this.#limits.slowMs) this.#slow.delete(channelOf(target));
      else if (target.kind === "channel") this.#slow.add(target.channel);
    }
  }

  #failed(entry: OutboxEntry, cause: unknown, tookMs: number): OutboxResult {
    const { permanent, retryAfterMs, unheard } =
      cause instanceof DeliveryFailed ? cause : { permanent: false, retryAfterMs: null, unheard: false };
    const why = cause instanceof Error ? cause.message : String(cause);
    const error = oneLine(why, defaults.taskErrorChars);
    const failure = { spentMs: entry.spentMs, tookMs, permanent, retryAfterMs };
    const next = nextAttempt(failure, this.#limits, (ms) => this.#clock.spread(ms));
    if (next !== null) return { status: "pending", error, unheard, ...next };
    return { status: "failed", error, unheard, spentMs: entry.spentMs + tookMs, at: this.#clock.wall() };
  }

  /** Again and again while the store is away, until it is too late or this is stopped. */
  async #asked(what: string, ask: () => Promise<unknown>, left = () => Infinity): Promise<void> {
    for (;;) {
      try {
        await ask();
        return;
      } catch (cause) {
        this.#options.onTrouble?.(what, cause);
      }
      if (this.#stopping.signal.aborted || left() < AGAIN_MS) return;
      await this.#clock.pause(AGAIN_MS);
    }
  }
}

/** One that nobody survives sending must not end one gateway after the other. */
function mayKill({ unheard }: OutboxEntry): Promise<never> {
  const why = `whoever was sending it was gone before it could say what came of it, ${unheard} times; it may have arrived, and is not sent again`;
  return Promise.reject(new DeliveryFailed(why, { permanent: true }));
}

/** No channel has an empty name. */
function channelOf(target: Target): string {
  return target.kind === "channel" ? target.channel : "";
}
