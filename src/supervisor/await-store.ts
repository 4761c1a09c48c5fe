import { defaults } from "../defaults.js";
import { StoreAway } from "../errors.js";
import { systemClock } from "./clock.js";

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
      await systemClock.pause(systemClock.spread(pauseMs), ended(waiting.signal));
      if (isOver(waiting)) throw error;
    }
}

function isOver({ signal }: Waiting): boolean {
  return signal?.aborted === true;
}

function ended(signal: AbortSignal | undefined): Promise<void> | undefined {
  return (
    signal && new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }))
  );
}
