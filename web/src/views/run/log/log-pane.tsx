import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import type { Stream } from "../../../api/log-pages.js";
import type { Run } from "../../../api/types.js";
import { formatBytes } from "../../../components/bytes.js";
import { ErrorBox } from "../../../components/error-box.js";
import { isOpen } from "../../../live/runs.js";
import { LogSearch } from "./log-search.js";
import { LogWindow } from "./log-window.js";

/** Closer than this to an end of what is shown, the next page is read. */
const NEAR_PX = 600;
/** So close to the end, the end is followed. */
const AT_END_PX = 8;

/** The output of one stream as text, of any length: a window of pages that moves with the scroll position. */
export function LogPane({ run, stream }: { readonly run: Run; readonly stream: Stream }) {
  const log = useMemo(() => new LogWindow(run.runId, stream), [run.runId, stream]);
  useEffect(() => {
    void log.open();
    return () => log[Symbol.dispose]();
  }, [log]);
  const { first, end } = log.range.value;
  const pages = log.pages.value;
  return (
    <div class="log-pane">
      <div class="toolbar">
        <button type="button" disabled={end <= first} onClick={() => void log.goTo(first)}>
          Start
        </button>
        <button
          type="button"
          aria-pressed={log.following.value}
          disabled={end <= first}
          onClick={() => void log.end()}
          title="Show the end, and what is added to it"
        >
          {isOpen(run) ? "Follow" : "End"}
        </button>
        <input
          type="range"
          class="position"
          aria-label="Position in the output"
          aria-valuetext={`${formatBytes(pages[0]?.offset ?? 0)} of ${formatBytes(end)}`}
          min={first}
          max={end}
          step={1}
          value={log.following.value ? end : (pages[0]?.offset ?? 0)}
          onChange={(event) => void log.goTo(Number(event.currentTarget.value))}
        />
        <span class="quiet number">{formatBytes(end)}</span>
        <LogSearch run={run} log={log} />
      </div>
      {log.error.value !== null && <ErrorBox error={log.error.value} />}
      {first > 0 && <p class="note">The first {formatBytes(first)} are no longer kept.</p>}
      {pages.length === 0 ? (
        <p class="output-text quiet">{isOpen(run) ? "No output so far." : "No output."}</p>
      ) : (
        <LogText log={log} />
      )}
    </div>
  );
}

function LogText({ log }: { readonly log: LogWindow }) {
  const box = useRef<HTMLPreElement>(null);
  const pages = log.pages.value;
  const following = log.following.value;
  /** A page that stays, and where it was: what is read above it must not move it. */
  const anchor = useRef<{ readonly offset: number; readonly top: number } | null>(null);

  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    if (following) element.scrollTop = element.scrollHeight;
    else if (anchor.current !== null) {
      const kept = element.querySelector(`[data-offset="${anchor.current.offset}"]`);
      if (kept === null) element.scrollTop = 0;
      else element.scrollTop += kept.getBoundingClientRect().top - anchor.current.top;
    }
    remember();
  }, [pages, following]);

  /** Chooses the first page that reaches into the box. */
  const remember = (): void => {
    const element = box.current;
    if (element === null) return;
    const { top } = element.getBoundingClientRect();
    const shown = [...element.querySelectorAll("[data-offset]")].find(
      (each) => each.getBoundingClientRect().bottom > top,
    );
    anchor.current =
      shown === undefined
        ? null
        : {
            offset: Number((shown as HTMLElement).dataset["offset"]),
            top: shown.getBoundingClientRect().top,
          };
  };
  const onScroll = (): void => {
    const element = box.current;
    if (element === null) return;
    const below = element.scrollHeight - element.clientHeight - element.scrollTop;
    const atEnd = pages.at(-1)?.nextOffset === log.range.peek().end;
    log.following.value = atEnd && below <= AT_END_PX;
    remember();
    if (element.scrollTop < NEAR_PX) void log.earlier();
    else if (below < NEAR_PX) void log.later();
  };
  return (
    <pre
      ref={box}
      class="output-text"
      tabIndex={0}
      role="region"
      aria-label="Output"
      dir="ltr"
      onScroll={onScroll}
    >
      {pages.map(({ offset, text }) => (
        <span key={offset} data-offset={offset}>
          {text}
        </span>
      ))}
    </pre>
  );
}
