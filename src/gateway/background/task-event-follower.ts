import { isTaskEnded, type TaskEvent } from "../../model/task.js";
import type { TaskStore } from "../../store/tasks/store.js";

/** What another gateway writes is heard by looking: as often as somebody who waits notices. */
const POLL_MS = 500;

/** What happens to tasks, as it is written. One for all who read. */
export class TaskEventFollower {
  readonly #store: Pick<TaskStore, "getTask" | "listTaskEvents">;
  readonly #waiting = new Set<() => void>();
  #wakes = 0;
  #closed = false;

  constructor(store: Pick<TaskStore, "getTask" | "listTaskEvents">) {
    this.#store = store;
  }

  /** Something was written. */
  wake(): void {
    this.#wakes += 1;
    for (const go of this.#waiting) go();
  }

  /** Whoever follows has heard all that this process says. */
  close(): void {
    this.#closed = true;
    this.wake();
  }

  /** From a number on. Ends with the task, with this process, and when `gone` aborts. */
  async *follow(
    taskId: string,
    after: number,
    disconnected: AbortSignal,
  ): AsyncGenerator<TaskEvent, void, undefined> {
    let last = after;
    while (!disconnected.aborted && !this.#closed) {
      // Before the look: what is written during it may not be found by it.
      const wakes = this.#wakes;
      const task = await this.#store.getTask(taskId);
      const news = task === null || task.seq === last ? [] : await this.#store.listTaskEvents(taskId);
      for (const event of news) {
        if (event.seq <= last) continue;
        last = event.seq;
        yield event;
      }
      if (task === null || isTaskEnded(task.status)) return;
      if (this.#wakes === wakes) await this.#waitForWake(disconnected);
    }
  }

  #waitForWake(disconnected: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(done);
        disconnected.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, POLL_MS);
      this.#waiting.add(done);
      disconnected.addEventListener("abort", done, { once: true });
      if (disconnected.aborted) done();
    });
  }
}
