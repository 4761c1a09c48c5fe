/** What ends with something that may go on for long. `AbortSignal.any` would leave a trace of each in that, for good. */
export function linkAbort(own: AbortController, other: AbortSignal): AbortSignal {
  const end = (): void => own.abort();
  other.addEventListener("abort", end, { once: true, signal: own.signal });
  if (other.aborted) end();
  return own.signal;
}
