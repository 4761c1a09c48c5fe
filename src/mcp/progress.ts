import type { ToolCall } from "./tool.js";
import type { OutputPiece } from "./run-view.js";

/** Between two reports of progress. */
const INTERVAL_MS = 1_000;
const MAX_LINE_CHARS = 200;

/** Reports the newest line of a run's output while the call waits, until it is disposed. */
export function followProgress(call: ToolCall, runId: string): Disposable {
  const { observer, reportProgress } = call;
  if (reportProgress === null) return { [Symbol.dispose]: () => undefined };
  const over = new AbortController();
  const signal = AbortSignal.any([over.signal, call.signal]);
  const startedAt = Date.now();
  let offsets = { stdout: 0, stderr: 0 };
  let line = "";
  const report = async (): Promise<void> => {
    try {
      const { output } = await observer.poll(
        { params: { runId }, query: { ...offsets, maxChars: 2_000 } },
        signal,
      );
      offsets = { stdout: endOf(output, "stdout"), stderr: endOf(output, "stderr") };
      line = newestLine(output) ?? line;
    } catch {
      // The run does not exist yet, or waits for an approval.
    }
    if (signal.aborted) return;
    const seconds = Math.round((Date.now() - startedAt) / 1_000);
    reportProgress(line === "" ? `${seconds} s` : `${seconds} s: ${line}`);
    timer = setTimeout(() => void report(), INTERVAL_MS);
  };
  let timer = setTimeout(() => void report(), INTERVAL_MS);
  return {
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      over.abort();
    },
  };
}

function endOf(output: readonly OutputPiece[], stream: string): number {
  return output.find((piece) => piece.stream === stream)?.nextOffset ?? 0;
}

function newestLine(output: readonly OutputPiece[]): string | null {
  const lines = output.flatMap(({ text }) => text.split("\n").filter((each) => each.trim() !== ""));
  return lines.at(-1)?.slice(0, MAX_LINE_CHARS) ?? null;
}
