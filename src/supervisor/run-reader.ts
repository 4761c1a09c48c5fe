import type { StreamName } from "../anchor/host-interface.js";
import type { Clock } from "../async/clock.js";
import { defaults } from "../defaults.js";
import { RunNotFound } from "../errors.js";
import { errorMessage } from "../home/errno.js";
import type { RunRecord } from "../model/run.js";
import { listCopiedRuns } from "../store/local-copy/run-copy.js";
import type { OutputChunk, RunList } from "./api.js";
import type { ReadOptions } from "./check-options.js";
import type { SupervisorContext } from "./run/live-run.js";
import { readLiveOutput, readOutput } from "./run/output.js";
import { runAddressOf } from "./run/recorded-identity.js";
import type { RunFilter } from "../store/runs/contract.js";

/** Reads records and output of runs, also of runs that another supervisor owns. */
export class RunReader {
  readonly #context: SupervisorContext;
  readonly #fallback: LocalFallback;

  constructor(context: SupervisorContext) {
    this.#context = context;
    this.#fallback = new LocalFallback(context.clock);
  }

  async getRun(runId: string): Promise<RunRecord | null> {
    const { store, localCopy, runs } = this.#context;
    runs.get(runId)?.writeQueue.flush();
    if (localCopy === null) return store.getRun(runId);
    // The local copy has every run of this state directory that is open or ended recently: those can be read and
    // stopped while the store is unreachable.
    return this.#fallback.query<RunRecord | null>(
      () => store.getRun(runId),
      async () => (await localCopy.get(runId))?.record ?? null,
    );
  }

  async readOutput(run: string | RunRecord, stream: StreamName, options?: ReadOptions): Promise<OutputChunk> {
    const runId = typeof run === "string" ? run : run.runId;
    const live = this.#context.runs.get(runId);
    if (live !== undefined) return readLiveOutput(live, stream, options);
    const record = typeof run === "string" ? await this.getRun(run) : run;
    if (record === null) throw new RunNotFound(runId);
    return readOutput(this.#context.host, runAddressOf(record), stream, options);
  }

  async listRunsOrLocal(filter: RunFilter = {}, withinMs: number = defaults.localListMs): Promise<RunList> {
    const { store, localCopy } = this.#context;
    flushWaitingWrites(this.#context);
    if (localCopy === null) return { runs: await store.listRuns(filter), storeAway: null };
    return this.#fallback.query<RunList>(
      async () => ({ runs: await store.listRuns(filter), storeAway: null }),
      async (error) => ({
        runs: await listCopiedRuns(localCopy, filter),
        storeAway: error === null ? "the store does not answer" : errorMessage(error),
      }),
      withinMs,
    );
  }
}

/** Writes the starts and stops that wait for the end of their runs, so that a reader sees the runs as they are. */
export function flushWaitingWrites({ runs }: SupervisorContext): void {
  for (const { writeQueue } of runs.values()) writeQueue.flush();
}

/**
 * Answers from the store, or from this host if the store does not answer in time. After an unanswered query, the store
 * is queried at most once in `localRetryMs` for records that this host also has.
 */
class LocalFallback {
  readonly #clock: Clock;
  /** When the store last did not answer; null: its last query was answered. */
  #unansweredSince: number | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * `fromHost` answers from this host; null: only the store can answer. Its argument is the store's error, or null if
   * the store has not answered.
   */
  async query<Answer>(
    fromStore: () => Promise<Answer>,
    fromHost: (error: unknown) => Promise<Answer | null>,
    withinMs: number = defaults.localAnswerMs,
  ): Promise<Answer> {
    if (this.#isUnanswered()) {
      const local = await fromHost(null);
      if (local !== null) return local;
    }
    const pending = fromStore();
    const answered = pending.then(
      (answer) => {
        this.#unansweredSince = null;
        return { answer, error: null };
      },
      (error: unknown) => ({ answer: null, error }),
    );
    const timeout = this.#clock.sleep(withinMs, answered).then(() => null);
    const first = await Promise.race([answered, timeout]);
    if (first !== null && first.error === null) return pending;
    if (first === null) this.#unansweredSince = this.#clock.now();
    return (await fromHost(first?.error ?? null)) ?? pending;
  }

  #isUnanswered(): boolean {
    return (
      this.#unansweredSince !== null && this.#clock.now() - this.#unansweredSince < defaults.localRetryMs
    );
  }
}
