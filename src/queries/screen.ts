import { defaults } from "../defaults.js";
import { continueReplay, replayScreen } from "../output/replay-screen.js";
import type { Screen, ScreenSnapshot } from "../output/screen.js";
import type { RunRecord } from "../model/run.js";
import type { RunReader } from "./runs.js";

interface CachedScreen {
  readonly screen: Screen;
  readonly nextOffset: number;
}

/**
 * What terminals show, drawn from their spools: no gateway needs to have watched them. Those looked at last are kept, so
 * that the next look draws only what is new.
 */
export class ScreenCache implements AsyncDisposable {
  readonly #reader: RunReader;
  /** The one looked at last comes last. Each is a promise: whoever looks meanwhile waits for its turn. */
  readonly #screens = new Map<string, Promise<CachedScreen>>();

  constructor(reader: RunReader) {
    this.#reader = reader;
  }

  async snapshot({ runId }: RunRecord): Promise<ScreenSnapshot> {
    const before = this.#screens.get(runId);
    const next = this.#render(runId, before);
    this.#screens.delete(runId);
    this.#screens.set(runId, next);
    const [oldest] = this.#screens.keys();
    if (this.#screens.size > defaults.screensKept && oldest !== undefined) await this.#evict(oldest);
    try {
      return (await next).screen.snapshot();
    } catch (error) {
      if (this.#screens.get(runId) === next) this.#screens.delete(runId);
      throw error;
    }
  }

  async #render(runId: string, before: Promise<CachedScreen> | undefined): Promise<CachedScreen> {
    const { rows, cols } = defaults;
    const size = this.#reader.run(runId)?.size ?? { rows, cols };
    const read = (offset: number, maxBytes: number) =>
      this.#reader.readOutput(runId, "stdout", { offset, maxBytes });
    const kept = await before?.catch(() => undefined);
    if (kept === undefined) return replayScreen(read, size);
    try {
      await kept.screen.resize(size);
      const { nextOffset } = await continueReplay(kept.screen, read, kept.nextOffset);
      kept.screen.takeReplies();
      return { screen: kept.screen, nextOffset };
    } catch (error) {
      await kept.screen[Symbol.asyncDispose]();
      throw error;
    }
  }

  async #evict(runId: string): Promise<void> {
    const kept = this.#screens.get(runId);
    this.#screens.delete(runId);
    await kept?.then(
      ({ screen }) => screen[Symbol.asyncDispose](),
      () => undefined,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#screens.keys()].map((runId) => this.#evict(runId)));
  }
}
