import type { ProcessIdentity } from "../../model/process.js";
import { deferred, type Deferred } from "../../async/deferred.js";
import type { ProcessEvidence } from "./evidence-types.js";

type ProcessQuery = ProcessIdentity | number;

interface Call {
  readonly wanted: readonly ProcessQuery[];
  readonly done: Deferred<readonly ProcessEvidence[]>;
}

/** While one inspection waits for its process, another can be started. */
const INSPECTIONS_AT_ONCE = 2;

/**
 * Inspects the processes of many callers with few processes of its own: calls during an inspection share the next, which
 * begins after each of them.
 */
export class BatchedInspection {
  readonly #inspect: (wanted: readonly ProcessQuery[]) => Promise<readonly ProcessEvidence[]>;
  #waiting: Call[] = [];
  #running = 0;

  constructor(inspect: (wanted: readonly ProcessQuery[]) => Promise<readonly ProcessEvidence[]>) {
    this.#inspect = inspect;
  }

  inspect(wanted: readonly ProcessQuery[]): Promise<readonly ProcessEvidence[]> {
    const done = deferred<readonly ProcessEvidence[]>();
    this.#waiting.push({ wanted, done });
    if (this.#running < INSPECTIONS_AT_ONCE) void this.#inspectWaiting();
    return done.promise;
  }

  /** Never rejects. */
  async #inspectWaiting(): Promise<void> {
    this.#running += 1;
    while (this.#waiting.length > 0) {
      const calls = this.#waiting;
      this.#waiting = [];
      await this.#answer(calls);
    }
    this.#running -= 1;
  }

  async #answer(calls: readonly Call[]): Promise<void> {
    try {
      const evidence = await this.#inspect(calls.flatMap(({ wanted }) => wanted));
      let at = 0;
      for (const { wanted, done } of calls) {
        done.resolve(evidence.slice(at, at + wanted.length));
        at += wanted.length;
      }
    } catch (error) {
      // An invalid query of one caller does not concern the others.
      if (calls.length === 1) calls[0]?.done.reject(error);
      else for (const call of calls) await this.#answer([call]);
    }
  }
}
