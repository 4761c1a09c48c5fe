import fc from "fast-check";
import { expect, test } from "vitest";
import type { StreamName } from "../../../src/anchor/host-interface.js";
import type { OutputChunk } from "../../../src/supervisor/api.js";
import { type FollowSource, followStreams } from "../../../src/supervisor/run/output.js";
import { OutputRanges } from "../../../src/supervisor/run/output-ranges.js";

/** A spool that grows as the test says. */
class Spool {
  readonly ranges = new OutputRanges();
  readonly acks: string[] = [];
  readonly #bytes: Record<StreamName, string> = { stdout: "", stderr: "" };
  /** Bytes before this are gone. */
  dropped = 0;
  reads = 0;
  afterRead: () => void = () => undefined;

  get source(): FollowSource {
    return {
      outputRanges: this.ranges,
      read: async (stream, offset, maxBytes) => {
        this.reads++;
        const from = Math.max(offset, this.dropped);
        const bytes = Buffer.from(this.#bytes[stream].slice(from, from + maxBytes));
        await new Promise(setImmediate);
        this.afterRead();
        return { offset: from, bytes };
      },
      ack: (stream, offset) => this.acks.push(`${stream} ${offset}`),
    };
  }

  write(stream: StreamName, text: string, told = true): void {
    this.#bytes[stream] += text;
    if (told)
      this.ranges.update(stream, {
        start: this.dropped,
        end: this.#bytes[stream].length,
        dropped: this.dropped,
        closed: false,
      });
  }

  close(stream: StreamName): void {
    const { start, end, dropped } = this.ranges.range(stream);
    this.ranges.update(stream, { start, end, dropped, closed: true });
  }
}

async function collect(chunks: AsyncIterable<OutputChunk>): Promise<Record<StreamName, string>> {
  const text = { stdout: "", stderr: "" };
  for await (const { stream, bytes } of chunks) text[stream] += Buffer.from(bytes).toString();
  return text;
}
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("a follower gets stored and new output, and ends when all streams have ended", async () => {
  const spool = new Spool();
  spool.write("stdout", "one ");
  const collected = collect(followStreams(spool.source));
  await turn();
  spool.write("stderr", "two");
  spool.close("stderr");
  await turn();
  spool.write("stdout", "three");
  spool.close("stdout");
  expect(await collected).toEqual({ stdout: "one three", stderr: "two" });
});

test("bytes that arrive during a read are not missed", async () => {
  const spool = new Spool();
  spool.write("stdout", "a");
  let more = 5;
  spool.afterRead = () => {
    if (more-- > 0) spool.write("stdout", "b");
    else spool.close("stdout");
  };
  expect((await collect(followStreams(spool.source, { streams: ["stdout"] }))).stdout).toBe("abbbbb");
});

test("two followers see the same bytes, each at its own pace and from its own offset", async () => {
  const spool = new Spool();
  spool.write("stdout", "0123456789");
  const slow = followStreams(spool.source, { streams: ["stdout"] });
  const first = slow.next();
  const late = collect(followStreams(spool.source, { streams: ["stdout"], offsets: { stdout: 5 } }));
  spool.write("stdout", "ab");
  spool.close("stdout");
  expect((await late).stdout).toBe("56789ab");
  const { value } = await first;
  const rest = (await collect(slow)).stdout;
  expect((value === undefined ? "" : Buffer.from(value.bytes).toString()) + rest).toBe("0123456789ab");
});

test("an ended run is read to the end of its spool without a known length", async () => {
  const spool = new Spool();
  spool.write("stdout", "never announced", false);
  spool.ranges.end();
  expect((await collect(followStreams(spool.source))).stdout).toBe("never announced");
});

test("an ended run with a known length is not read past its end", async () => {
  const spool = new Spool();
  spool.write("stdout", "all");
  spool.close("stdout");
  spool.close("stderr");
  spool.ranges.end();
  expect((await collect(followStreams(spool.source))).stdout).toBe("all");
  expect(spool.reads).toBe(1);
});

test("bytes that were dropped are skipped, and the offset says so", async () => {
  const spool = new Spool();
  spool.write("stdout", "0123456789");
  spool.dropped = 4;
  spool.close("stdout");
  const chunks: OutputChunk[] = [];
  for await (const chunk of followStreams(spool.source, { streams: ["stdout"] })) chunks.push(chunk);
  expect(chunks.map(({ offset, bytes }) => [offset, Buffer.from(bytes).toString()])).toEqual([[4, "456789"]]);
});

test("with ack, a chunk is acknowledged when the next one is requested", async () => {
  const spool = new Spool();
  spool.write("stdout", "abc");
  const chunks = followStreams(spool.source, { streams: ["stdout"], ack: true });
  await chunks.next();
  expect(spool.acks).toEqual([]);
  spool.close("stdout");
  await chunks.next();
  expect(spool.acks).toEqual(["stdout 3"]);
});

test("aborting ends a waiting follower, and a follower that has not begun", async () => {
  const spool = new Spool();
  const controller = new AbortController();
  const waiting = collect(followStreams(spool.source, { signal: controller.signal }));
  await turn();
  controller.abort();
  expect(await waiting).toEqual({ stdout: "", stderr: "" });
  expect(await collect(followStreams(spool.source, { signal: controller.signal }))).toEqual({
    stdout: "",
    stderr: "",
  });
});

test("a follower that stops leaves no waiter", async () => {
  const spool = new Spool();
  spool.write("stdout", "abc");
  for await (const chunk of followStreams(spool.source)) {
    expect(chunk.stream).toBe("stdout");
    break;
  }
});

test("no byte is missed and no follower hangs, however output and reads interleave", async () => {
  const happening = fc.oneof(
    fc.record({
      stream: fc.constantFrom<StreamName>("stdout", "stderr"),
      text: fc.string({ minLength: 1, maxLength: 5, unit: "grapheme-ascii" }),
    }),
    fc.constant(null),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(happening, { maxLength: 40 }), async (happenings) => {
      const spool = new Spool();
      const wanted = { stdout: "", stderr: "" };
      const collected = Promise.all([
        collect(followStreams(spool.source)),
        collect(followStreams(spool.source)),
      ]);
      for (const each of happenings) {
        if (each === null) await turn();
        else {
          wanted[each.stream] += each.text;
          spool.write(each.stream, each.text);
        }
      }
      spool.close("stdout");
      spool.close("stderr");
      spool.ranges.end();
      expect(await collected).toEqual([wanted, wanted]);
    }),
    { numRuns: 100 },
  );
});
