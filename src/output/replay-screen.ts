import type { TerminalSize } from "../anchor/host-interface.js";
import { defaults } from "../defaults.js";
import { type ByteReader, findRange } from "./byte-reader.js";
import { Screen } from "../terminal/screen.js";
import { orphanedHeadBytes } from "../text/utf8.js";

export interface ReplayOptions {
  /**
   * Offset to stop at. Default: the end of the stream when the replay starts, because a busy program's stream keeps
   * growing.
   */
  readonly until?: number;
  readonly signal?: AbortSignal;
}

export interface ReplayedScreen {
  readonly screen: Screen;
  /** Offset for `continueReplay`. */
  readonly nextOffset: number;
  /** Output that was no longer kept. State that only it had set (modes, the alternate screen) is unknown. */
  readonly droppedBytes: number;
}

/**
 * Draws a run's screen from its spool alone. The whole output is drawn at one size, because a spool does not record
 * size changes.
 */
export async function replayScreen(
  read: ByteReader,
  size: TerminalSize,
  options: ReplayOptions = {},
): Promise<ReplayedScreen> {
  const screen = new Screen(size);
  try {
    const caughtUp = await continueReplay(screen, read, 0, options);
    // The terminal queries are old: they were answered before, or the program no longer waits.
    screen.takeReplies();
    return { screen, ...caughtUp };
  } catch (error) {
    await screen[Symbol.asyncDispose]();
    throw error;
  }
}

/** Feeds a screen the stream from `offset` on. After an abort the screen is incomplete and must not be used. */
export async function continueReplay(
  screen: Screen,
  read: ByteReader,
  offset: number,
  { until, signal }: ReplayOptions = {},
): Promise<Omit<ReplayedScreen, "screen">> {
  const end = until ?? (await findRange(read)).end;
  let position = offset;
  let droppedBytes = 0;
  while (position < end) {
    signal?.throwIfAborted();
    const slice = await read(position, Math.min(defaults.logChunkBytes, end - position));
    if (slice.bytes.length === 0) break;
    let { bytes } = slice;
    if (slice.offset > position) {
      droppedBytes += slice.offset - position;
      await screen.skipLostOutput();
      bytes = bytes.subarray(findSafeStart(bytes));
    }
    await screen.feed(bytes, signal);
    position = slice.offset + slice.bytes.length;
  }
  return { nextOffset: position, droppedBytes };
}

const LINE_FEED = 0x0a;
const ESCAPE = 0x1b;

/**
 * Finds where to start in a stream whose start is lost, so that the rest of an escape sequence is not shown as text:
 * after a line feed, or at an escape, which starts a new sequence in any state. Wrong cells stay until the program
 * redraws or clears them.
 */
function findSafeStart(bytes: Uint8Array): number {
  const offsets = [bytes.indexOf(LINE_FEED) + 1, bytes.indexOf(ESCAPE)].filter((place) => place > 0);
  return bytes[0] === ESCAPE ? 0 : offsets.length > 0 ? Math.min(...offsets) : orphanedHeadBytes(bytes);
}
