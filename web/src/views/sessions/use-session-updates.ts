import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ApiError, pathOf } from "../../api/client.js";
import { endpoints } from "../../../../src/api/endpoints.js";
import { followNdjson } from "../../api/ndjson.js";
import { defaults } from "../../defaults.js";
import { TurnLog, type Update } from "./turn-log.js";

export interface Updates {
  readonly logs: ReadonlyMap<string, TurnLog>;
  /** Changes whenever a log has changed. */
  readonly version: number;
}

/**
 * The updates of an ACP session behind `after`, live. After an interruption it continues behind the last update. Hidden
 * pages do not follow. `onChange`: a turn, a permission request or the session itself has changed.
 */
export function useUpdates(sessionId: string, after: number, onChange: () => void): Updates {
  const logs = useRef(new Map<string, TurnLog>());
  const version = useSignal(0);
  const changed = useRef(onChange);
  changed.current = onChange;
  useEffect(() => {
    logs.current = new Map();
    const gone = new AbortController();
    let last = after;
    let frame = 0;
    const show = (): void => {
      if (frame === 0)
        frame = requestAnimationFrame(() => {
          frame = 0;
          version.value++;
        });
    };
    const apply = (update: Update): void => {
      last = update.seq;
      const of = update.turnId ?? "";
      const log = logs.current.get(of) ?? new TurnLog();
      logs.current.set(of, log);
      log.apply(update);
      if (update.type !== "update" && update.type !== "replay") changed.current();
      show();
    };
    void follow(
      gone.signal,
      () => pathOf(endpoints.acpWatch.path, { id: sessionId }, { after: last, follow: 1 }),
      apply,
    );
    return () => {
      gone.abort();
      cancelAnimationFrame(frame);
    };
  }, [sessionId, after]);
  return { logs: logs.current, version: version.value };
}

async function follow(gone: AbortSignal, path: () => string, apply: (update: Update) => void): Promise<void> {
  let pauseMs: number = defaults.reconnectFirstMs;
  while (!gone.aborted) {
    await untilVisible();
    const hidden = new AbortController();
    const onVisibility = (): void => {
      if (document.hidden) hidden.abort();
    };
    document.addEventListener("visibilitychange", onVisibility);
    try {
      const ends = AbortSignal.any([gone, hidden.signal]);
      const opened = (): void => void (pauseMs = defaults.reconnectFirstMs);
      for await (const update of followNdjson<Update>(path(), ends, opened)) apply(update);
    } catch (error) {
      if (error instanceof ApiError && error.status < 500) return;
    } finally {
      document.removeEventListener("visibilitychange", onVisibility);
    }
    if (gone.aborted) return;
    await new Promise((resolve) => {
      setTimeout(resolve, pauseMs);
    });
    pauseMs = Math.min(pauseMs * 2, defaults.reconnectLastMs);
  }
}

function untilVisible(): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    document.addEventListener("visibilitychange", () => resolve(), { once: true });
  });
}
