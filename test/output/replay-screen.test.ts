import { expect, onTestFinished, test } from "vitest";
import {
  continueReplay,
  type ReplayedScreen,
  type ReplayOptions,
  replayScreen,
} from "../../src/output/replay-screen.js";
import { storedStream, type StoredStream } from "./stored-stream.js";

const ESC = "\u001b";

async function replay(stream: StoredStream, options?: ReplayOptions): Promise<ReplayedScreen> {
  const replayed = await replayScreen(stream.read, { rows: 4, cols: 30 }, options);
  onTestFinished(() => replayed.screen[Symbol.asyncDispose]());
  return replayed;
}

test("a run's screen is drawn from its spool alone, and continues from there", async () => {
  const stream = storedStream("one\r\nt", { mostAtOnce: 2 });
  const { screen, nextOffset, droppedBytes } = await replay(stream);
  expect(screen.snapshot().rows).toEqual(["one", "t", "", ""]);
  expect([nextOffset, droppedBytes]).toEqual([6, 0]);
  stream.append(Buffer.from("wo"));
  expect(await continueReplay(screen, stream.read, nextOffset)).toEqual({ nextOffset: 8, droppedBytes: 0 });
  expect(screen.snapshot().rows).toEqual(["one", "two", "", ""]);
});

test("an empty stream is an empty screen", async () => {
  const { screen, nextOffset } = await replay(storedStream(""));
  expect(screen.snapshot().rows).toEqual(["", "", "", ""]);
  expect(nextOffset).toBe(0);
});

test("old terminal queries are not answered again", async () => {
  const { screen } = await replay(storedStream(`${ESC}[6n${ESC}[c`));
  expect(screen.takeReplies()).toHaveLength(0);
});

test.each([
  ["in the middle of a line", `lost lost\r\nkept`, 3, ["kept", "", "", ""]],
  ["in the middle of a sequence", `${ESC}[38;5;12${ESC}[2;2Hkept`, 4, ["", " kept", "", ""]],
  ["in the middle of a title", `${ESC}]0;long title\u0007lost\nkept`, 6, ["kept", "", "", ""]],
  ["in the middle of a character", "€uro", 1, ["uro", "", "", ""]],
  ["right before a clear", `${ESC}[2J${ESC}[2J${ESC}[Hkept`, 4, ["kept", "", "", ""]],
])(
  "a replay of a spool whose start was dropped %s starts at a safe position",
  async (_where, text, first, rows) => {
    const { screen, droppedBytes } = await replay(storedStream(text, { first }));
    expect(screen.snapshot().rows).toEqual(rows);
    expect(droppedBytes).toBe(first);
  },
);

test("a program that clears its screen is shown correctly wherever the start was dropped", async () => {
  const text = `a€\r\n${ESC}]0;títle\u0007${ESC}P$qm${ESC}\\${ESC}[1;38;5;12mb${ESC}[m`;
  const clear = `${ESC}[m${ESC}[H${ESC}[2Jright`;
  for (let first = 0; first <= Buffer.byteLength(text); first += 1) {
    const { screen } = await replay(storedStream(text + clear, { first }));
    expect(screen.snapshot().rows).toEqual(["right", "", "", ""]);
  }
});

test("a writer that overtakes the replay leaves a gap, not a broken screen", async () => {
  const stream = storedStream(`kept${ESC}]0;never ended`);
  const { screen, nextOffset } = await replay(stream);
  stream.append(Buffer.from(`still the title\u0007\r\nafter`));
  stream.drop(nextOffset + 5);
  const { droppedBytes } = await continueReplay(screen, stream.read, nextOffset);
  expect(droppedBytes).toBe(5);
  expect(screen.snapshot()).toMatchObject({ title: "", rows: ["keptafter", "", "", ""] });
});

test("a replay ends at the end that the stream had, or at a given offset", async () => {
  const stream = storedStream("0123456789");
  const endless: StoredStream = {
    ...stream,
    read: (offset, maxBytes) => {
      stream.append(Buffer.alloc(100, "x"));
      return stream.read(offset, maxBytes);
    },
  };
  expect((await replay(stream, { until: 4 })).screen.snapshot().rows[0]).toBe("0123");
  expect((await replay(endless)).nextOffset).toBeGreaterThan(0);
});

test("an aborted replay stops", async () => {
  const stream = storedStream(Buffer.alloc(4_000_000, "x"));
  await expect(replay(stream, { signal: AbortSignal.timeout(1) })).rejects.toThrow("timeout");
  expect(stream.given.total).toBeLessThan(4_000_000);
});
