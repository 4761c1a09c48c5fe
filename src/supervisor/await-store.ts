import { defaults } from "../defaults.js";
import { StoreAway } from "../errors.js";
import { systemClock } from "./clock.js";
import { deferred } from "./deferred.js";

/** What to do while the store is away: be told of it each time, and end the waiting. */
export interface Waiting {
  readonly away: (error: StoreAway) => Promise<void>;
  readonly signal?: AbortSignal;
}

/** Open it; when it is away and somebody waits, again and again. Whatever else is wrong with it will not pass. */
export async function awaitStore<Store>(open: () => Promise<Store>, waiting: Waiting | null): Promise<Store> {
  for (
    let pauseMs: number = defaults.storeAwayRetryMs;
    ;
    pauseMs = Math.min(2 * pauseMs, defaults.storeAwayRetryMaxMs)
  )
    try {
      return await open();
    } catch (error) {
      if (!(error instanceof StoreAway) || waiting === null || isOver(waiting)) throw error;
      await waiting.away(error);
      await pause(systemClock.spread(pauseMs), waiting.signal);
      if (isOver(waiting)) throw error;
    }
}

function isOver({ signal }: Waiting): boolean {
  return signal?.aborted === true;
}

/** Leaves nothing at the signal: an outage may last for days. */
async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  const early = deferred<void>();
  const stop = (): void => early.resolve();
  signal?.addEventListener("abort", stop, { once: true });
  await systemClock.pause(ms, early.promise);
  signal?.removeEventListener("abort", stop);
}
