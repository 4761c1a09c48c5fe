import { systemClock } from "../async/clock.js";
import { deferred } from "../async/deferred.js";
import { defaults } from "../defaults.js";
import { StoreAway } from "../errors.js";

/** How a caller waits for an unreachable store. */
export interface StoreWait {
  readonly onStoreAway: (error: StoreAway) => Promise<void>;
  readonly signal?: AbortSignal;
}

/**
 * Opens the store. While it is unreachable and `wait` is given, tries again. Other errors are not temporary and are
 * thrown.
 */
export async function retryWhileStoreAway<Opened>(
  open: () => Promise<Opened>,
  wait: StoreWait | null,
): Promise<Opened> {
  for (
    let pauseMs: number = defaults.storeAwayRetryMs;
    ;
    pauseMs = Math.min(2 * pauseMs, defaults.storeAwayRetryMaxMs)
  )
    try {
      return await open();
    } catch (error) {
      if (!(error instanceof StoreAway) || wait === null || isAborted(wait)) throw error;
      await wait.onStoreAway(error);
      await sleepUntilAbort(systemClock.jitter(pauseMs), wait.signal);
      if (isAborted(wait)) throw error;
    }
}

function isAborted({ signal }: StoreWait): boolean {
  return signal?.aborted === true;
}

/** Removes its listener from the signal, because an outage may last for days. */
async function sleepUntilAbort(ms: number, signal: AbortSignal | undefined): Promise<void> {
  const aborted = deferred<void>();
  const stop = (): void => aborted.resolve();
  signal?.addEventListener("abort", stop, { once: true });
  await systemClock.sleep(ms, aborted.promise);
  signal?.removeEventListener("abort", stop);
}
