import { setTimeout } from "node:timers/promises";
import { NotSteering } from "../errors.js";

/** A fence falls when a lease is renewed, which is tried every few seconds. */
const FENCE_POLL_MS = 100;

/** What may not be done now, because the lease could not be renewed in time, is done as soon as it has been. */
export async function retryWhileFenced<T>(attempt: () => Promise<T>, signal?: AbortSignal): Promise<T> {
  for (;;)
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof NotSteering) || signal?.aborted === true) throw error;
      await setTimeout(FENCE_POLL_MS, undefined, { ref: false });
    }
}
