import { defaults } from "../defaults.js";
import type { Clock } from "../async/clock.js";

/**
 * Answers from the store, or from this host if the store does not answer in time. After an unanswered query, the store
 * is asked at most once in `localRetryMs` for records that this host also has.
 */
export class LocalFallback {
  readonly #clock: Clock;
  /** When the store last did not answer; null: its last query was answered. */
  #unansweredSince: number | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `here` returns this host's record; null: this host has none, and only the store can answer. `why` is null until the store has given a reason. */
  async query<Answer>(
    store: () => Promise<Answer>,
    here: (why: unknown) => Promise<Answer | null>,
    withinMs: number = defaults.localAnswerMs,
  ): Promise<Answer> {
    if (this.#isUnanswered()) {
      const known = await here(null);
      if (known !== null) return known;
    }
    const asked = store();
    const answered = asked.then(
      (answer) => {
        this.#unansweredSince = null;
        return { answer, error: null };
      },
      (error: unknown) => ({ answer: null, error }),
    );
    const late = this.#clock.sleep(withinMs, answered).then(() => null);
    const first = await Promise.race([answered, late]);
    if (first !== null && first.error === null) return asked;
    if (first === null) this.#unansweredSince = this.#clock.now();
    const known = await here(first?.error ?? null);
    return known === null ? asked : known;
  }

  #isUnanswered(): boolean {
    return (
      this.#unansweredSince !== null && this.#clock.now() - this.#unansweredSince < defaults.localRetryMs
    );
  }
}
