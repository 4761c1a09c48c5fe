import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Run } from "../../../api/types.js";
import { SearchBox } from "../search-box.js";
import { findInLog } from "./find-in-log.js";
import type { LogWindow } from "./log-window.js";

/** Searches the whole log, from the last match on. */
export function LogSearch({ run, log }: { readonly run: Run; readonly log: LogWindow }) {
  const result = useSignal<string | null>(null);
  const last = useRef<{ readonly text: string; readonly from: number } | null>(null);
  const searching = useRef<AbortController | null>(null);
  useEffect(() => () => searching.current?.abort(), [log]);
  const find = async (text: string): Promise<void> => {
    searching.current?.abort();
    result.value = null;
    if (text === "") return;
    const abort = new AbortController();
    searching.current = abort;
    const { first, end } = log.range.peek();
    const again = last.current?.text === text ? last.current.from : first;
    const search = { runId: run.runId, stream: log.stream, text, end };
    result.value = "searching…";
    try {
      const found =
        (await findInLog({ ...search, from: again }, abort.signal)) ??
        (again > first ? await findInLog({ ...search, from: first }, abort.signal) : null);
      result.value = found === null ? "not found" : null;
      if (found === null) return;
      await log.goTo(found);
      last.current = {
        text,
        from: log.pages.peek().find(({ offset }) => offset >= found)?.nextOffset ?? end,
      };
      requestAnimationFrame(() => selectFirst(text, found));
    } catch (error) {
      if (!abort.signal.aborted) result.value = (error as Error).message;
    }
  };
  return <SearchBox label="Search the log" result={result.value} onFind={(text) => void find(text)} />;
}

/** Selects the match in the pages that are shown, and scrolls to it. */
function selectFirst(text: string, from: number): void {
  const wanted = text.toLowerCase();
  for (const page of document.querySelectorAll<HTMLElement>(".log-pane [data-offset]")) {
    const node = page.firstChild;
    const at = node?.textContent?.toLowerCase().indexOf(wanted) ?? -1;
    if (Number(page.dataset["offset"]) < from || node === null || at < 0) continue;
    const match = document.createRange();
    match.setStart(node, at);
    match.setEnd(node, at + wanted.length);
    const selection = getSelection();
    selection?.removeAllRanges();
    selection?.addRange(match);
    const box = page.parentElement;
    if (box === null) return;
    box.scrollTop +=
      match.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 3;
    return;
  }
}
