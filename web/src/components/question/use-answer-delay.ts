import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { defaults } from "../../defaults.js";

/** True when `shown` has been in front of the person for a moment. */
export function useAnswerDelay(shown: string): boolean {
  const armed = useSignal<string | null>(null);
  useEffect(() => {
    const timer = setTimeout(() => (armed.value = shown), defaults.answerArmMs);
    return () => clearTimeout(timer);
  }, [shown]);
  return armed.value === shown;
}
