/** Callbacks per signal, so that a thousand runs under one signal are one listener and no leak warning. */
const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/** Call back once when the signal aborts (it has not yet). Returns how to stop listening. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  let callbacks = listeners.get(signal);
  if (callbacks === undefined) {
    const fresh = new Set<() => void>();
    listeners.set(signal, fresh);
    signal.addEventListener(
      "abort",
      () => {
        for (const each of fresh) each();
        fresh.clear();
      },
      { once: true },
    );
    callbacks = fresh;
  }
  callbacks.add(callback);
  return () => callbacks.delete(callback);
}

/** What ends with something that may go on for long. `AbortSignal.any` would leave a trace of each in that, for good. */
export function linkAbort(own: AbortController, other: AbortSignal): AbortSignal {
  const end = (): void => own.abort();
  other.addEventListener("abort", end, { once: true, signal: own.signal });
  if (other.aborted) end();
  return own.signal;
}
