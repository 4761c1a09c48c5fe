import { defaults } from "../defaults.js";
import { BadInput } from "../errors.js";
import type { RunRecord } from "../model/run.js";
import { continueReplay, replayScreen } from "../output/replay-screen.js";
import type { Screen, ScreenSnapshot } from "../terminal/screen.js";
import { encodeKeys, encodePaste } from "../terminal/encode-keys.js";
import type { RunReader } from "./runs.js";

interface CachedScreen {
  readonly screen: Screen;
  readonly nextOffset: number;
}

/**
 * Screens of terminals, rendered from their spools. An LRU cache, so that the next request renders only new output.
 */
export class ScreenCache implements AsyncDisposable {
  readonly #reader: RunReader;
  /** Least recently used first. Each entry is a promise, so that requests for one screen are serialized. */
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

export function assertHasTerminal({ runId, io }: RunRecord): void {
  if (io !== "pty")
    throw new BadInput(
      "runId",
      `run ${runId} has no terminal; it must be started with one (--pty, over MCP terminal: true)`,
    );
}

export async function screenshot(screenCache: ScreenCache, record: RunRecord): Promise<ScreenSnapshot> {
  assertHasTerminal(record);
  return screenCache.snapshot(record);
}

export async function encodeKeysForRun(
  screenCache: ScreenCache,
  record: RunRecord,
  keys: readonly string[],
): Promise<Uint8Array> {
  return encodeKeys(keys, (await screenshot(screenCache, record)).modes);
}

export async function encodePasteForRun(
  screenCache: ScreenCache,
  record: RunRecord,
  text: string,
): Promise<{ readonly bytes: Uint8Array; readonly bracketed: boolean }> {
  const { modes } = await screenshot(screenCache, record);
  return { bytes: encodePaste(text, modes), bracketed: modes.bracketedPaste };
}
