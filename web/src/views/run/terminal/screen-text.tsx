import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { defaults } from "../../../defaults.js";
import type { Screen } from "./screen.js";

/** The content of the terminal as text that a screen reader reads and that can be selected. */
export function ScreenText({ screen }: { readonly screen: Screen }) {
  const text = useSignal(screen.text());
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | null = null;
    screen.onChange(() => {
      timer ??= setTimeout(() => {
        timer = null;
        text.value = screen.text();
      }, defaults.screenTextMs);
    });
    return () => {
      if (timer !== null) clearTimeout(timer);
    };
  }, [screen]);
  return (
    <pre class="output-text" tabIndex={0} aria-label="The terminal as text" dir="ltr">
      {text.value === "" ? <span class="quiet">The terminal is empty.</span> : text.value}
    </pre>
  );
}
