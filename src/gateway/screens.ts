import { defaults } from "../defaults.js";
import { catchUp, screenOf } from "../output/screen-of.js";
import type { Screen, ScreenSnapshot } from "../output/screen.js";
import type { RunRecord } from "../store/run-record.js";
import type { RunReader } from "./handlers/run-reader.js";

interface Kept {
  readonly screen: Screen;
  readonly nextOffset: number;
}

/**
 * What terminals show, drawn from their spools: no gateway needs to have watched them. Those looked at last are kept, so
 * that the next look draws only what is new.
 */
export class Screens implements AsyncDisposable {
  readonly #reader: RunReader;
  /** The one looked at last comes last. Each is a promise: whoever looks meanwhile waits for its turn. */
  readonly #kept = new Map<string, Promise<Kept>>();

  constructor(reader: RunReader) {
    this.#reader = reader;
  }

  async snapshot({ runId }: RunRecord): Promise<ScreenSnapshot> {
    const before = this.#kept.get(runId);
    const next = this.#draw(runId, before);
    this.#kept.delete(runId);
    this.#kept.set(runId, next);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > defaults.screensKept && oldest !== undefined) await this.#drop(oldest);
    try {
      return (await next).screen.snapshot();
    } catch (error) {
      if (this.#kept.get(runId) === next) this.#kept.delete(runId);
      throw error;
    }
  }

  async #draw(runId: string, before: Promise<Kept> | undefined): Promise<Kept> {
    const { rows, cols } = defaults;
    const size = this.#reader.run(runId)?.size ?? { rows, cols };
    const read = (offset: number, maxBytes: number) =>
      this.#reader.readOutput(runId, "stdout", { offset, maxBytes });
    const kept = await before?.catch(() => undefined);
    if (kept === undefined) return screenOf(read, size);
    try {
      await kept.screen.resize(size);
      const { nextOffset } = await catchUp(kept.screen, read, kept.nextOffset);
      kept.screen.takeReplies();
      return { screen: kept.screen, nextOffset };
    } catch (error) {
      await kept.screen[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #drop(runId: string): Promise<void> {
    const kept = this.#kept.get(runId);
    this.#kept.delete(runId);
    await kept?.then(
      ({ screen }) => screen[Symbol.asyncDispose](),
      () => undefined,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#kept.keys()].map((runId) => this.#drop(runId)));
  }
}
