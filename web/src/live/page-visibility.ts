/** Resolves when the page is visible. */
export function untilVisible(): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    const check = (): void => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
  });
}

/** Aborts when the page is hidden, or when `signal` aborts. */
export function whileVisible(signal?: AbortSignal): { readonly signal: AbortSignal } & Disposable {
  const hidden = new AbortController();
  const check = (): void => {
    if (document.hidden) hidden.abort();
  };
  document.addEventListener("visibilitychange", check);
  check();
  return {
    signal: signal === undefined ? hidden.signal : AbortSignal.any([signal, hidden.signal]),
    [Symbol.dispose]: () => document.removeEventListener("visibilitychange", check),
  };
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
