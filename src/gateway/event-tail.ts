import type { RunEvent } from "../store/run-event.js";
import type { Supervisor } from "../supervisor/api.js";

const PAGE = 500;

/** Events as they are committed, by whichever supervisor. One for all who read: whoever watches the store wakes it. */
export class EventTail {
  readonly #supervisor: Pick<Supervisor, "listEvents">;
  readonly #waiting = new Set<() => void>();
  #wakes = 0;

  constructor(supervisor: Pick<Supervisor, "listEvents">) {
    this.#supervisor = supervisor;
  }

  /** There may be more to read. */
  wake(): void {
    this.#wakes += 1;
    for (const go of this.#waiting) go();
  }

  /** From a sequence number on. Ends when `gone` aborts. */
  async *follow(
    after: number,
    runId: string | undefined,
    gone: AbortSignal,
  ): AsyncGenerator<RunEvent, void, undefined> {
    const filter = runId === undefined ? {} : { runId };
    let last = after;
    while (!gone.aborted) {
      // Before the look: what is committed during it may not be found by it.
      const wakes = this.#wakes;
      const page = await this.#supervisor.listEvents({ ...filter, after: last, limit: PAGE });
      for (const event of page) {
        last = event.seq;
        yield event;
      }
      if (page.length < PAGE && this.#wakes === wakes) await this.#woken(gone);
    }
  }

  #woken(gone: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#waiting.delete(done);
        gone.removeEventListener("abort", done);
        resolve();
      };
      this.#waiting.add(done);
      gone.addEventListener("abort", done, { once: true });
      if (gone.aborted) done();
    });
  }
}
