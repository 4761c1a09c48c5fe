import { useSignal } from "@preact/signals";

export interface Action {
  readonly busy: boolean;
  /** Why the last one failed; null: it did not. */
  readonly error: unknown;
  readonly run: (what: () => Promise<unknown>) => void;
}

/** Runs one request of a button at a time, and keeps its error for the person. */
export function useAction(): Action {
  const busy = useSignal(false);
  const error = useSignal<unknown>(null);
  const run = async (what: () => Promise<unknown>): Promise<void> => {
    if (busy.peek()) return;
    busy.value = true;
    error.value = null;
    try {
      await what();
    } catch (cause) {
      error.value = cause;
    } finally {
      busy.value = false;
    }
  };
  return { busy: busy.value, error: error.value, run: (what) => void run(what) };
}
