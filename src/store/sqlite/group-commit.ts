import { deferred, type Deferred } from "../../async/deferred.js";
import { isBusy } from "../../home/sqlite-errors.js";

interface Member {
  readonly work: () => unknown;
  readonly done: Deferred<unknown>;
}

interface Outcome {
  readonly member: Member;
  readonly failed: boolean;
  /** The error, if it failed. */
  readonly result: unknown;
}

interface GroupCommitOptions {
  /** Executes `work` in one transaction. */
  readonly commit: <Result>(work: () => Result) => Promise<Result>;
  /** Resolves when everything committed before the call survives power loss. Null: the writes need not. */
  readonly flush: (() => Promise<void>) | null;
}

/**
 * Group commit: durable writes that arrive while another is being committed or synced share the next transaction and the
 * next sync. They would have to wait for that sync in any case. Pages that several writes change are then written once.
 */
export class GroupCommit {
  readonly #options: GroupCommitOptions;
  readonly #running = new Set<Promise<void>>();
  #waiting: Member[] = [];
  #scheduled = false;

  constructor(options: GroupCommitOptions) {
    this.#options = options;
  }

  /**
   * Executes a durable write within the call if no other write is waiting, and resolves when it survives power loss.
   * Writes that need not be durable form a group with those of the same turn of the event loop.
   */
  add<Result>(work: () => Result): Promise<Result> {
    const done = deferred<unknown>();
    this.#waiting.push({ work, done });
    if (this.#options.flush !== null && this.#running.size === 0 && !this.#scheduled) this.#start();
    else if (!this.#scheduled) {
      this.#scheduled = true;
      // The callers of one sync go on in the same turn of the event loop, so their next writes form a group.
      setImmediate(() => this.#start());
    }
    return done.promise as Promise<Result>;
  }

  /** Commits what waits; resolves when no write is left. */
  async close(): Promise<void> {
    while (this.#waiting.length > 0 || this.#running.size > 0) {
      if (this.#waiting.length > 0) this.#start();
      await Promise.all(this.#running);
    }
  }

  #start(): void {
    this.#scheduled = false;
    const running = this.#commitWaiting().finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Never rejects. */
  async #commitWaiting(): Promise<void> {
    const group = this.#waiting;
    this.#waiting = [];
    if (group.length === 0) return;
    const outcomes = await this.#commitGroup(group);
    try {
      if (outcomes.some(({ failed }) => !failed)) await this.#options.flush?.();
      for (const { member, failed, result } of outcomes)
        if (failed) member.done.reject(result);
        else member.done.resolve(result);
    } catch (error) {
      // The member's own error says more than that of the sync.
      for (const { member, failed, result } of outcomes) member.done.reject(failed ? result : error);
    }
  }

  /** Never rejects. Committed writes may not be synced yet. */
  async #commitGroup(group: readonly Member[]): Promise<readonly Outcome[]> {
    try {
      const results = await this.#options.commit(() => group.map(({ work }) => work()));
      return group.map((member, at) => ({ member, failed: false, result: results[at] }));
    } catch (error) {
      // All writes of the group wait for the same lock, so they fail together.
      if (group.length === 1 || isBusy(error)) return failAll(group, error);
    }
    // Nothing is committed. Each is executed alone, so that a failure of one does not fail the others.
    const outcomes: Outcome[] = [];
    for (const [at, member] of group.entries()) {
      const [outcome] = await this.#commitGroup([member]);
      if (outcome?.failed === true && isBusy(outcome.result))
        return [...outcomes, ...failAll(group.slice(at), outcome.result)];
      if (outcome !== undefined) outcomes.push(outcome);
    }
    return outcomes;
  }
}

function failAll(group: readonly Member[], error: unknown): readonly Outcome[] {
  return group.map((member) => ({ member, failed: true, result: error }));
}
