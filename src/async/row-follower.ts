/** The result of one read. */
interface RowPage<Row> {
  readonly rows: readonly Row[];
  /** More rows may be there already. */
  readonly full?: boolean;
  /** No more rows will come. */
  readonly ended?: boolean;
}

export interface FollowOptions {
  readonly signal: AbortSignal;
  /** The time until the next poll for rows of other processes. Null: only after a wake.  */
  readonly pollMs?: () => number | null;
}

/**
 * Follows rows as they are written: reads, then waits until a writer of this process wakes the readers, or polls for the
 * rows of other processes. One follower serves all readers of a table.
 */
export class RowFollower {
  readonly #waiting = new Map<string, Set<() => void>>();
  #closed = false;

  /** Wakes the readers of a key. Default: all readers. */
  wake(key?: string): void {
    if (key !== undefined) for (const go of this.#waiting.get(key) ?? []) go();
    else for (const readers of this.#waiting.values()) for (const go of readers) go();
  }

  /** Ends all `follow` streams after their next read. */
  close(): void {
    this.#closed = true;
    this.wake();
  }

  /** Yields the rows of each read, also if there are none. Ends with the rows, with `close`, and when `signal` aborts. */
  async *follow<Row>(
    key: string,
    read: () => Promise<RowPage<Row>>,
    { signal, pollMs }: FollowOptions,
  ): AsyncGenerator<readonly Row[], void, undefined> {
    while (!signal.aborted && !this.#closed) {
      // Listens before the read: a row that is written during the read may not be in its result.
      using woken = this.#listen(key, signal, pollMs);
      const { rows, full = false, ended = false } = await read();
      yield rows;
      if (ended) return;
      if (!full) await woken.wait();
    }
  }

  /** The first result of `probe` that is not null, probed again after each wake. Null: `signal` aborted first. */
  async waitFor<Result>(
    key: string,
    probe: () => Promise<Result | null>,
    { signal, pollMs }: FollowOptions,
  ): Promise<Result | null> {
    while (!signal.aborted) {
      using woken = this.#listen(key, signal, pollMs);
      const found = await probe();
      if (found !== null) return found;
      await woken.wait();
    }
    return null;
  }

  #listen(
    key: string,
    signal: AbortSignal,
    pollMs: FollowOptions["pollMs"],
  ): Disposable & { readonly wait: () => Promise<void> } {
    const readers = this.#waiting.get(key) ?? new Set<() => void>();
    this.#waiting.set(key, readers);
    let go = (): void => undefined;
    const promise = new Promise<void>((resolve) => (go = resolve));
    readers.add(go);
    const interval = pollMs?.() ?? null;
    const timer = interval === null ? undefined : setTimeout(go, interval);
    return {
      wait: () => {
        signal.addEventListener("abort", go);
        if (signal.aborted) go();
        return promise;
      },
      [Symbol.dispose]: () => {
        clearTimeout(timer);
        readers.delete(go);
        signal.removeEventListener("abort", go);
        if (readers.size === 0 && this.#waiting.get(key) === readers) this.#waiting.delete(key);
      },
    };
  }
}
