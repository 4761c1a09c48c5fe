/** Callbacks per signal. A thousand runs under one signal share one listener, which avoids Node's leak warning. */
const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls back once when the signal aborts; the signal must not have aborted yet. Returns a function that removes the
 * callback.
 */
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

/** Aborts `own` when `other` aborts. Unlike `AbortSignal.any`, this leaves nothing behind in a long-lived `other`. */
export function linkAbort(own: AbortController, other: AbortSignal): AbortSignal {
  const end = (): void => own.abort();
  other.addEventListener("abort", end, { once: true, signal: own.signal });
  if (other.aborted) end();
  return own.signal;
}

/**
 * A signal that aborts with `other`, or after `ms`; dispose of it when the work is over. The timer holds it: Node 20
 * collects an `AbortSignal.timeout` to which only `AbortSignal.any` refers, and the combined signal then never aborts.
 */
export function withTimeLimit(other: AbortSignal, ms: number): { readonly signal: AbortSignal } & Disposable {
  const own = new AbortController();
  const timer = setTimeout(() => own.abort(), ms);
  return {
    signal: linkAbort(own, other),
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      own.abort();
    },
  };
}
