import { isDeepStrictEqual } from "node:util";
import { onTestFinished } from "vitest";
import { replayScreen } from "../../../src/output/replay-screen.js";
import { Screen, type ScreenSnapshot } from "../../../src/terminal/screen.js";
import { encodeKeys, encodePaste } from "../../../src/terminal/encode-keys.js";
import type { Run, SpawnOptions } from "../../../src/supervisor/api.js";
import { plantLookalike, realSupervisor } from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

const SIZE = { rows: 24, cols: 80 };

/** A program on a terminal, with its screen. */
interface WatchedTerminal {
  readonly run: Run;
  readonly screen: Screen;
  snapshot(): ScreenSnapshot;
  text(): string;
  /** The line of the cursor up to the cursor, with the blank of a prompt, which is not in the snapshot's rows. */
  lineBeforeCursor(): string;
  /** Waits until the screen contains the text. */
  waitFor(what: string | RegExp): Promise<void>;
  keys(...words: string[]): Promise<void>;
  paste(text: string): Promise<void>;
  /** Waits until a screen drawn from the spool alone is the same. */
  expectSameReplayed(): Promise<void>;
}

export async function watchTerminal(
  argv: readonly string[],
  env: Record<string, string> = {},
  options: SpawnOptions = {},
): Promise<WatchedTerminal> {
  const supervisor = await realSupervisor();
  plantLookalike("sleep", "600");
  const run = await supervisor.spawn(
    { io: "pty", argv },
    {
      size: SIZE,
      env: { TERM: "xterm-256color", LC_ALL: "C.UTF-8", HOME: supervisor.home, ...env },
      ...options,
    },
  );
  const screen = new Screen(SIZE);
  const watching = (async () => {
    for await (const { bytes } of run.follow({ streams: ["stdout"] })) await screen.feed(bytes);
  })();
  onTestFinished(async () => {
    await run.cancel({ graceMs: 100 });
    await watching;
    await screen[Symbol.asyncDispose]();
  });
  const snapshot = (): ScreenSnapshot => screen.snapshot();
  const text = (): string => snapshot().rows.join("\n");
  return {
    run,
    screen,
    snapshot,
    text,
    lineBeforeCursor: () => {
      const { rows, cursor } = snapshot();
      return (rows[cursor.y] ?? "").slice(0, cursor.x).padEnd(cursor.x);
    },
    waitFor: async (what) => {
      const shown = (): boolean => (typeof what === "string" ? text().includes(what) : what.test(text()));
      await waitFor(String(what), shown).catch((error: unknown) => {
        throw new Error(`the screen is\n${text()}`, { cause: error });
      });
    },
    keys: (...words) => run.write(encodeKeys(words, snapshot().modes)),
    paste: (pasted) => run.write(encodePaste(pasted, snapshot().modes)),
    expectSameReplayed: async () => {
      await waitFor("the screen is the same from the spool", async () => {
        const live = snapshot();
        const size = { rows: live.rows.length, cols: live.cols };
        const read = (offset: number, maxBytes: number) => run.read("stdout", { offset, maxBytes });
        const replayed = await replayScreen(read, size, { until: live.bytes });
        const same = isDeepStrictEqual(replayed.screen.snapshot(), live);
        await replayed.screen[Symbol.asyncDispose]();
        return same;
      });
    },
  };
}
