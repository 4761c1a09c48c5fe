import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { defaults } from "../defaults.js";
import { connection } from "./connection.js";
import { listenForEvents } from "./events.js";

export interface Resource<Value> {
  /** Undefined: the first answer has not arrived. */
  readonly value: Value | undefined;
  /** Null: the last read succeeded. */
  readonly error: unknown;
  /** Reads it now. */
  readonly reload: () => void;
}

interface ResourceOptions {
  /** Also read again at this interval, for data that changes without an event of a run. */
  readonly everyMs?: number;
  /** Read again after events of these runs (`[]`: of no run). Default: of any run. */
  readonly runIds?: readonly string[];
}

/**
 * Data of the gateway for a view: read when the view appears and `key` changes, and again after events of runs, at an
 * interval, and when the connection is back.
 */
export function useResource<Value>(
  key: string,
  read: (signal: AbortSignal) => Promise<Value>,
  { everyMs, runIds }: ResourceOptions = {},
): Resource<Value> {
  const value = useSignal<Value | undefined>(undefined);
  const error = useSignal<unknown>(null);
  const reload = useSignal<() => void>(() => undefined);
  const watched = runIds?.join(" ");
  useEffect(() => {
    value.value = undefined;
    const gone = new AbortController();
    let timer: ReturnType<typeof setTimeout> | null = null;
    let reading = false;
    let again = false;
    const load = async (): Promise<void> => {
      if (reading) {
        again = true;
        return;
      }
      reading = true;
      try {
        const found = await read(gone.signal);
        if (gone.signal.aborted) return;
        value.value = found;
        error.value = null;
      } catch (cause) {
        if (gone.signal.aborted) return;
        error.value = cause;
      } finally {
        reading = false;
      }
      if (again) {
        again = false;
        await load();
      }
    };
    const soon = (): void => {
      timer ??= setTimeout(() => {
        timer = null;
        void load();
      }, defaults.viewCollectMs);
    };
    reload.value = () => void load();
    void load();
    const ignore = listenForEvents({
      onEvent: ({ runId, type }) => {
        if (type !== "output" && (watched === undefined || watched.split(" ").includes(runId))) soon();
      },
      onGap: soon,
    });
    const unsubscribe = connection.subscribe((state) => {
      if (state === "restored" || state === "live") soon();
    });
    const interval =
      everyMs === undefined
        ? null
        : setInterval(() => {
            if (!document.hidden && !reading && connection.peek() !== "lost") void load();
          }, everyMs);
    return () => {
      gone.abort();
      ignore();
      unsubscribe();
      if (timer !== null) clearTimeout(timer);
      if (interval !== null) clearInterval(interval);
    };
    // `read` is another function at each render; `key` says what it reads.
  }, [key, watched, everyMs]);
  return { value: value.value, error: error.value, reload: () => reload.value() };
}
