import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { request } from "../../api/client.js";
import type { Task } from "../../api/types.js";
import { defaults } from "../../defaults.js";
import { connection } from "../../live/connection.js";
import { listenForEvents } from "../../live/events.js";

/** Tasks per request. */
const PAGE = 200;

export type TaskFilter = Readonly<Record<string, string>>;

export interface TaskPages {
  /** Undefined: the first page has not come. Newest first. */
  readonly tasks: readonly Task[] | undefined;
  readonly more: boolean;
  readonly error: unknown;
  readonly reload: () => void;
  /** The items from `from` to `to` are shown: reads the next page if the end is near, and keeps these current. */
  readonly onRange: (from: number, to: number) => void;
}

interface Control {
  readonly refresh: () => void;
  readonly range: (from: number, to: number) => void;
}

/** The tasks of a filter, page by page as the person scrolls. The newest and the visible tasks are kept current. */
export function useTaskPages(filter: TaskFilter): TaskPages {
  const tasks = useSignal<readonly Task[] | undefined>(undefined);
  const next = useSignal<string | null>(null);
  const error = useSignal<unknown>(null);
  const control = useRef<Control | null>(null);
  const key = JSON.stringify(filter);
  useEffect(() => {
    tasks.value = undefined;
    const gone = new AbortController();
    const query = JSON.parse(key) as TaskFilter;
    let visible = { from: 0, to: 0 };
    let busy: Promise<void> | null = null;
    let again = false;

    const read = async (cursor: string | null): Promise<void> => {
      const place = cursor === null ? {} : { cursor: cursor as never };
      const page = await request("listTasks", {
        query: { ...(query as object), ...place, limit: PAGE },
        signal: gone.signal,
      });
      const known = tasks.peek() ?? [];
      const merged = replaceRange(known, cursor, page.tasks, page.next);
      const last = page.tasks.at(-1);
      // The page is the deepest one that was read.
      if (last === undefined || merged.at(-1)?.taskId === last.taskId) next.value = page.next;
      tasks.value = merged;
      error.value = null;
    };
    const once = (work: () => Promise<void>): void => {
      if (busy !== null) {
        again = true;
        return;
      }
      busy = work()
        .catch((cause: unknown) => {
          if (!gone.signal.aborted) error.value = cause;
        })
        .finally(() => {
          busy = null;
          if (again && !gone.signal.aborted) {
            again = false;
            control.current?.range(visible.from, visible.to);
          }
        });
    };
    const refresh = (): void =>
      once(async () => {
        await read(null);
        // The task above the visible ones is the place behind which the page begins.
        const above = (tasks.peek() ?? [])[visible.from - 1];
        if (above !== undefined && visible.from > PAGE / 2) await read(cursorOf(above));
      });
    const range = (from: number, to: number): void => {
      visible = { from, to };
      const loaded = tasks.peek()?.length ?? 0;
      const cursor = next.peek();
      if (cursor !== null && to > loaded - PAGE / 2) once(() => read(cursor));
    };
    control.current = { refresh, range };
    refresh();
    let timer: ReturnType<typeof setTimeout> | null = null;
    const soon = (): void => {
      timer ??= setTimeout(() => {
        timer = null;
        refresh();
      }, defaults.tasksCollectMs);
    };
    const ignore = listenForEvents({
      onEvent: ({ type }) => {
        if (type !== "output") soon();
      },
      onGap: soon,
    });
    const interval = setInterval(() => {
      if (!document.hidden && connection.peek() !== "lost") refresh();
    }, defaults.tasksPollMs);
    return () => {
      gone.abort();
      ignore();
      clearInterval(interval);
      if (timer !== null) clearTimeout(timer);
    };
  }, [key]);
  return {
    tasks: tasks.value,
    more: next.value !== null,
    error: error.value,
    reload: () => control.current?.refresh(),
    onRange: (from, to) => control.current?.range(from, to),
  };
}

function cursorOf({ createdAt, taskId }: Pick<Task, "createdAt" | "taskId">): string {
  return `${createdAt}.${taskId}`;
}

/** Negative: the first is newer. */
function compare(one: Task, other: Pick<Task, "createdAt" | "taskId">): number {
  if (one.createdAt !== other.createdAt) return other.createdAt - one.createdAt;
  return one.taskId === other.taskId ? 0 : one.taskId > other.taskId ? -1 : 1;
}

/**
 * The known tasks with one page read again: what is new is added, and what is no longer in the page (deleted, or another
 * status than the filter's) is removed.
 */
function replaceRange(
  known: readonly Task[],
  cursor: string | null,
  page: readonly Task[],
  next: string | null,
): readonly Task[] {
  const dot = cursor?.indexOf(".") ?? 0;
  const start =
    cursor === null ? null : { createdAt: Number(cursor.slice(0, dot)), taskId: cursor.slice(dot + 1) };
  const before = start === null ? [] : known.filter((task) => compare(task, start) <= 0);
  const last = page.at(-1);
  const after = next === null || last === undefined ? [] : known.filter((task) => compare(task, last) > 0);
  return [...before, ...page, ...after];
}
