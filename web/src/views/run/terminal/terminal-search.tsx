import { useSignal } from "@preact/signals";
import { SearchBox } from "../search-box.js";
import type { Screen } from "./screen.js";

/** Searches what the terminal shows and what scrolled out of it. */
export function TerminalSearch({ screen }: { readonly screen: Screen }) {
  const result = useSignal<string | null>(null);
  const find = (text: string, backwards: boolean): void => {
    if (text === "") screen.clearSelection();
    result.value = text === "" || screen.find(text, backwards) ? null : "not found";
  };
  return <SearchBox label="Search the terminal" result={result.value} onFind={find} />;
}
