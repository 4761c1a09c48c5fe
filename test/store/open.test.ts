import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { StoreAway } from "../../src/errors.js";
import { retryWhileStoreAway } from "../../src/store/retry-while-away.js";

test("retries of an unreachable store leave no listeners, and the wait can be aborted", async () => {
  const leave = new AbortController();
  const { signal } = leave;
  const listeners: number[] = [];
  const away = async (): Promise<void> => {
    listeners.push(getEventListeners(signal, "abort").length);
    if (listeners.length === 3) setTimeout(() => leave.abort(), 10);
  };
  const error = new StoreAway("", "it is away");
  await expect(retryWhileStoreAway(() => Promise.reject(error), { onStoreAway: away, signal })).rejects.toBe(
    error,
  );
  expect(listeners).toEqual([0, 0, 0]);
});
