import type { TerminalSize } from "../anchor/host.js";
import { defaults } from "../defaults.js";
import { type ByteReader, findRange } from "./byte-reader.js";
import { Screen } from "./screen.js";
import { orphanedHeadBytes } from "../text/utf8.js";

export interface ReplayOptions {
  /** Offset to stop at. Default: the end of the stream as it is when the replay begins; a busy program has none. */
  readonly until?: number;
  readonly signal?: AbortSignal;
}

export interface ReplayedScreen {
  readonly screen: Screen;
  /** Where to go on with `catchUp`. */
  readonly nextOffset: number;
  /** Output that was no longer kept. What it alone had set (modes, the alternate screen) is unknown. */
  readonly droppedBytes: number;
}

/** A run's screen, from its spool alone: nothing needs to have watched it. Drawn at one size, for a spool does not tell of others. */
export async function replayScreen(
  read: ByteReader,
  size: TerminalSize,
  options: ReplayOptions = {},
): Promise<ReplayedScreen> {
  const screen = new Screen(size);
  try {
    const caughtUp = await continueReplay(screen, read, 0, options);
    // The questions are old: they were answered then, or nobody waits for the answers any more.
    screen.takeReplies();
    return { screen, ...caughtUp };
  } catch (error) {
    await screen[Symbol.asyncDispose]();
    throw error;
  }
}

/** Feeds a screen what its stream has from `offset` on. After an abort the screen is part of the way, and of no further use. */
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
 * Where to begin in a stream whose beginning is lost, so that the rest of a sequence is not shown as text: after a
 * line end, or at an escape, which begins something new in any state. What is wrong on the screen then
 * lasts until the program draws over it or clears it.
 */
function findSafeStart(bytes: Uint8Array): number {
  const offsets = [bytes.indexOf(LINE_FEED) + 1, bytes.indexOf(ESCAPE)].filter((place) => place > 0);
  return bytes[0] === ESCAPE ? 0 : offsets.length > 0 ? Math.min(...offsets) : orphanedHeadBytes(bytes);
}
