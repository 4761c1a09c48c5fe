import { defaults } from "../defaults.js";
import type { Clock } from "./clock.js";

/**
 * Answers questions from the store, or from this host where the store does not answer in time. After an unanswered
 * question the store is asked again at most once in `localRetryMs` for what this host knows.
 */
export class LocalAnswers {
  readonly #clock: Clock;
  /** When the store was last found not to answer; null: it answers, as far as is known. */
  #silentSince: number | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `here` gives what this host knows; null: nothing, and then only the store can say. `why` is null before the store has said it. */
  async ask<Answer>(
    store: () => Promise<Answer>,
    here: (why: unknown) => Promise<Answer | null>,
    withinMs: number = defaults.localAnswerMs,
  ): Promise<Answer> {
    if (this.#isSilent()) {
      const known = await here(null);
      if (known !== null) return known;
    }
    const asked = store();
    const answered = asked.then(
      (answer) => {
        this.#silentSince = null;
        return { answer, error: null };
      },
      (error: unknown) => ({ answer: null, error }),
    );
    const late = this.#clock.pause(withinMs, answered).then(() => null);
    const first = await Promise.race([answered, late]);
    if (first !== null && first.error === null) return asked;
    if (first === null) this.#silentSince = this.#clock.now();
    const known = await here(first?.error ?? null);
    return known === null ? asked : known;
  }

  #isSilent(): boolean {
    return this.#silentSince !== null && this.#clock.now() - this.#silentSince < defaults.localRetryMs;
  }
}
