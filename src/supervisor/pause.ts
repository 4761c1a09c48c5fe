/** Keeps the process alive: whoever pauses still has a run to see to. Over at once when `early` settles. */
export function pause(ms: number, early?: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    const stop = (): void => {
      clearTimeout(timer);
      resolve();
    };
    early?.then(stop, stop);
  });
}
