import { RowFollower } from "../../async/row-follower.js";
import { isTaskEnded, type TaskEvent } from "../../model/task.js";
import type { TaskStore } from "../../store/tasks/store.js";

/** How often to look for events that another gateway writes. */
const POLL_MS = 500;

/** Follows the events of tasks as they are written. */
export class TaskEventFollower {
  readonly #store: Pick<TaskStore, "getTask" | "listTaskEvents">;
  readonly #rows = new RowFollower();

  constructor(store: Pick<TaskStore, "getTask" | "listTaskEvents">) {
    this.#store = store;
  }

  /** Called after an event of any task was written. */
  wake(): void {
    this.#rows.wake();
  }

  close(): void {
    this.#rows.close();
  }

  /** Events after a sequence number. Ends with the task, with `close`, and when `signal` aborts. */
  async *follow(
    taskId: string,
    after: number,
    signal: AbortSignal,
  ): AsyncGenerator<TaskEvent, void, undefined> {
    let last = after;
    const read = async () => {
      const task = await this.#store.getTask(taskId);
      const events = task === null || task.seq === last ? [] : await this.#store.listTaskEvents(taskId);
      return {
        rows: events.filter(({ seq }) => seq > last),
        ended: task === null || isTaskEnded(task.status),
      };
    };
    for await (const page of this.#rows.follow(taskId, read, { signal, pollMs: () => POLL_MS }))
      for (const event of page) {
        last = event.seq;
        yield event;
      }
  }
}
