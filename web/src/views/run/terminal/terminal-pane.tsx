import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { formatBytes } from "../../../components/bytes.js";
import { isOpen } from "../../../live/runs.js";
import type { Run } from "../../../api/types.js";
import { Screen } from "./screen.js";
import { ScreenText } from "./screen-text.js";
import { TerminalSearch } from "./terminal-search.js";
import { type StreamState, TerminalStream } from "./terminal-stream.js";

const STATES: Readonly<Record<StreamState, string>> = {
  connecting: "Connecting…",
  attached: "Live",
  reconnecting: "Reconnecting…",
  ended: "Complete",
};

/** The terminal of a run. Loaded only for runs with a terminal, because xterm.js is larger than the rest of the page. */
export function TerminalPane({ run }: { readonly run: Run }) {
  const element = useRef<HTMLDivElement>(null);
  const typeButton = useRef<HTMLButtonElement>(null);
  const screen = useSignal<Screen | null>(null);
  const stream = useRef<TerminalStream | null>(null);
  const state = useSignal<StreamState>("connecting");
  const problem = useSignal<string | null>(null);
  const skipped = useSignal(0);
  const typing = useSignal(false);
  const asText = useSignal(false);

  useEffect(() => {
    if (element.current === null) return;
    const opened = new Screen(
      element.current,
      (bytes) => stream.current?.send(bytes),
      () => setTyping(false),
    );
    const followed = new TerminalStream(run.runId, {
      onBytes: (bytes, shown) => opened.write(bytes, shown),
      onSkipped: (bytes) => (skipped.value += bytes),
      onSize: (size) => opened.show(size),
      onState: (next) => (state.value = next),
      onProblem: (message) => (problem.value = message),
    });
    screen.value = opened;
    stream.current = followed;
    void followed.follow();
    return () => {
      followed[Symbol.dispose]();
      opened[Symbol.dispose]();
      screen.value = null;
    };
  }, [run.runId]);

  const setTyping = (next: boolean): void => {
    typing.value = next;
    problem.value = null;
    if (screen.peek() !== null) (screen.peek() as Screen).typing = next;
    if (next) screen.peek()?.focus();
    else typeButton.current?.focus();
  };
  const fit = (): void => {
    const size = screen.peek()?.fittingSize() ?? null;
    if (size === null) return;
    stream.current?.resize(size);
    screen.peek()?.show(size);
  };
  const open = isOpen(run) && state.value !== "ended";
  return (
    <div class="terminal-pane">
      <div class="toolbar">
        <span class="quiet" role="status">
          {STATES[state.value]}
        </span>
        {open && (
          <button
            ref={typeButton}
            type="button"
            aria-pressed={typing.value}
            onClick={() => setTyping(!typing.value)}
            title="Send what you type to the run. Shift+F6 stops that."
          >
            {typing.value ? "Typing" : "Type"}
          </button>
        )}
        {open && (
          <button
            type="button"
            onClick={fit}
            title="Change the size of the run's terminal to this window, for everyone who looks at it"
          >
            Fit
          </button>
        )}
        <button type="button" aria-pressed={asText.value} onClick={() => (asText.value = !asText.value)}>
          As text
        </button>
        {screen.value !== null && <TerminalSearch screen={screen.value} />}
      </div>
      {typing.value && (
        <p class="note note-wait">
          What you type goes to the run. <kbd>Shift</kbd>+<kbd>F6</kbd> leaves the terminal.
        </p>
      )}
      {problem.value !== null && (
        <p class="note note-bad" role="alert">
          {problem.value}
        </p>
      )}
      {skipped.value > 0 && (
        <p class="note">{formatBytes(skipped.value)} of earlier output are not shown here; see the log.</p>
      )}
      <div
        ref={element}
        class="terminal-screen"
        data-typing={typing.value}
        hidden={asText.value}
        role="group"
        aria-label="Terminal"
      />
      {asText.value && screen.value !== null && <ScreenText screen={screen.value} />}
    </div>
  );
}
