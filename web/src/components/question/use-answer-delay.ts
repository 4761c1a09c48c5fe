import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

/** A click or a key that was meant for what was shown before must not answer. */
const ARM_MS = 600;

/** True when `shown` has been in front of the person for a moment. */
export function useAnswerDelay(shown: string): boolean {
  const armed = useSignal<string | null>(null);
  useEffect(() => {
    const timer = setTimeout(() => (armed.value = shown), ARM_MS);
    return () => clearTimeout(timer);
  }, [shown]);
  return armed.value === shown;
}
