import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type AcpFrame,
  AcpFrameReader,
  AcpFrameWriter,
  type OutgoingFrame,
} from "../../../src/acp/wire/frames.js";
import { deferred } from "../../../src/async/deferred.js";
import { AcpClosed } from "../../../src/errors.js";
import { scaled } from "../../support/scale.js";
import { flushPending } from "./connection-fixture.js";

/** Everything a stream says, cut at these places. */
function read(bytes: Buffer, cuts: readonly number[] = [], startAt = 0, maxBytes?: number): AcpFrame[] {
  const reader = new AcpFrameReader(startAt, maxBytes);
  const places = [startAt, ...cuts.filter((at) => at > startAt && at < bytes.length), bytes.length];
  const frames: AcpFrame[] = [];
  for (const [index, from] of places.sort((a, b) => a - b).entries()) {
    const to = places[index + 1];
    if (to !== undefined) frames.push(...reader.push({ offset: from, bytes: bytes.subarray(from, to) }));
  }
  const rest = reader.finish();
  return rest === null ? frames : [...frames, rest];
}

const spoken = (frames: readonly AcpFrame[]): AcpFrame[] => frames.filter(({ type }) => type !== "blank");
const update = (text: string): string => JSON.stringify({ jsonrpc: "2.0", method: "m", params: { text } });
const line = fc.oneof(
  fc.string({ unit: "grapheme" }).map(update),
  fc.constantFrom("", "\r", "  ", "[1]", "null", "{}", "junk", '{"jsonrpc":"2.0","id":{},"method":"m"}'),
  fc.string({ unit: "binary" }).map((text) => text.replaceAll("\n", "")),
);
const stream = fc
  .array(fc.tuple(line, fc.constantFrom("\n", "\r\n")), { maxLength: 12 })
  .map((lines) => Buffer.from(lines.flat().join("")));

test("frames do not depend on the chunks of the stream", () => {
  fc.assert(
    fc.property(stream, fc.array(fc.nat({ max: 400 })), (bytes, cuts) => {
      expect(spoken(read(bytes, cuts))).toEqual(spoken(read(bytes)));
    }),
  );
});

test("a stream read again from the end of a frame gives the rest once", () => {
  fc.assert(
    fc.property(stream, fc.array(fc.nat({ max: 400 })), fc.nat(), (bytes, cuts, which) => {
      const all = spoken(read(bytes));
      const at = all[which % Math.max(1, all.length)]?.end ?? 0;
      expect(spoken(read(bytes, cuts, at))).toEqual(all.filter(({ end }) => end > at));
    }),
  );
});

test("bytes before the start are skipped, and a gap is an error", () => {
  const bytes = Buffer.from(`${update("one")}\n${update("two")}\n`);
  const [first] = read(bytes);
  const reader = new AcpFrameReader(first!.end);
  expect([...reader.push({ offset: 0, bytes })]).toMatchObject([
    { message: { params: { text: "two" } }, end: bytes.length },
  ]);
  expect(() => [...reader.push({ offset: bytes.length + 1, bytes })]).toThrow(/output-lost/);
});

test.each([
  ["[1,2]", "a batch"],
  ["42", "not JSON-RPC 2.0"],
  ['{"method":"m"}', "not JSON-RPC 2.0"],
  ['{"jsonrpc":"2.0"}', "neither request nor answer"],
  ['{"jsonrpc":"2.0","id":1}', "neither request nor answer"],
  ['{"jsonrpc":"2.0","id":[1],"method":"m"}', "an invalid id"],
  [`{"jsonrpc":"2.0","id":"${"1".repeat(1_001)}","method":"m"}`, "an invalid id"],
  ["{", "not JSON"],
])("%s is not a frame: %s", (text, why) => {
  expect(read(Buffer.from(`${text}\n`))).toMatchObject([{ type: "malformed", why }]);
});

test("a line that is not UTF-8 is not a frame", () => {
  const bytes = Buffer.concat([
    Buffer.from('{"jsonrpc":"2.0","method":"'),
    Buffer.from([0xff]),
    Buffer.from('"}\n'),
  ]);
  expect(read(bytes)).toMatchObject([{ type: "malformed", why: "not UTF-8" }]);
});

test("the excerpt of a malformed line is short, sanitized and redacted", () => {
  const secret = `sk-${"a".repeat(40)}`;
  const [frame] = read(Buffer.from(`\u001b]0;title\u0007key=${secret} ${"x".repeat(10_000_000)}\n`));
  const shown = frame?.type === "malformed" ? frame.excerpt : "";
  expect(shown.length).toBeLessThanOrEqual(200);
  expect(shown).toMatch(/^key=\*\*\*/);
});

test("an end inside a frame is reported", () => {
  expect(read(Buffer.from(`${update("one")}\n{"jsonrpc"`))).toMatchObject([
    { type: "message" },
    { type: "malformed", why: "incomplete line" },
  ]);
});

test("blank lines are acknowledged", () => {
  expect(read(Buffer.from("\n\r\n\n"))).toEqual([{ type: "blank", end: 4 }]);
});

test.each([
  ["whole", Buffer.from(`${update("x".repeat(100))}\n`), []],
  ["without an end", Buffer.alloc(200, "x"), [50, 60, 70, 80, 150]],
])("a frame over the limit, %s, is refused", (_, bytes, cuts) => {
  expect(() => read(bytes, cuts, 0, 90)).toThrow(AcpClosed);
  expect(() => read(bytes, cuts, 0, 90)).toThrow(/frame-too-large/);
});

test("a frame of exactly the limit is read", () => {
  const text = update("x".repeat(100));
  expect(read(Buffer.from(`${text}\n`), [3, 50], 0, text.length)).toMatchObject([{ type: "message" }]);
});

test("a large frame in small chunks takes linear time and memory", () => {
  const text = update("x".repeat(30 * 1024 * 1024));
  const bytes = Buffer.from(`${text}\n`);
  const reader = new AcpFrameReader(0);
  const before = process.memoryUsage().arrayBuffers;
  const began = performance.now();
  let frames = 0;
  const piece = 997;
  for (let offset = 0; offset < bytes.length; offset += piece)
    frames += [...reader.push({ offset, bytes: bytes.subarray(offset, offset + piece) })].length;
  expect(frames).toBe(1);
  // Quadratic, 30,000 pieces of it would be copied for minutes; held as pieces, they would be many times its size.
  expect(performance.now() - began).toBeLessThan(scaled(15_000));
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(4 * bytes.length);
});

/** An agent's stdin: what it takes of each write before the writer dies. */
class Pipe {
  bytes = Buffer.alloc(0);
  kept: OutgoingFrame | null = null;

  outgoing(takes = Infinity): AcpFrameWriter {
    return new AcpFrameWriter(
      (written) => {
        const room = Math.min(written.length, takes - this.bytes.length);
        this.bytes = Buffer.concat([this.bytes, written.subarray(0, Math.max(0, room))]);
        return room >= written.length ? Promise.resolve() : new Promise(() => undefined);
      },
      this.bytes.length,
      this.kept,
    );
  }

  async send(outgoing: AcpFrameWriter, message: object): Promise<void> {
    await outgoing.send(message, async (frame) => {
      this.kept = frame;
    });
  }
}

test("after a crash at any point the next writer continues, and every frame arrives once", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.string({ unit: "grapheme" }), { minLength: 1, maxLength: 4 }),
      fc.nat({ max: 200 }),
      async (texts, diesAt) => {
        const pipe = new Pipe();
        const first = pipe.outgoing(diesAt);
        for (const text of texts) void pipe.send(first, { text });
        await flushPending();
        const second = pipe.outgoing();
        await pipe.send(second, { text: "next" });
        const said = pipe.bytes
          .toString()
          .split("\n")
          .slice(0, -1)
          .map((sent) => (JSON.parse(sent) as { text: string }).text);
        // Later frames were never stored, so their callers know that they were not sent.
        expect(said.slice(0, -1)).toEqual(texts.slice(0, said.length - 1));
        expect(said.at(-1)).toBe("next");
      },
    ),
    { numRuns: 60 },
  );
});

test("a frame is written after it is stored, and after the frame before it", async () => {
  const order: string[] = [];
  const gates = [deferred<void>(), deferred<void>()];
  const outgoing = new AcpFrameWriter(async (bytes) => void order.push(`write ${bytes.length}`), 100);
  const sent = gates.map((gate, index) =>
    outgoing.send({ index }, async ({ at }) => {
      order.push(`keep at ${at}`);
      await gate.promise;
    }),
  );
  await flushPending();
  gates[1]?.resolve();
  await flushPending();
  expect(order).toEqual(["keep at 100"]);
  gates[0]?.resolve();
  await Promise.all(sent);
  expect(order).toEqual(["keep at 100", "write 28", "keep at 128", "write 28"]);
});

test("a failed write does not block the next", async () => {
  let broken = true;
  const outgoing = new AcpFrameWriter(() =>
    broken ? Promise.reject(new Error("not now")) : Promise.resolve(),
  );
  const keep = async (): Promise<void> => undefined;
  await expect(outgoing.send({}, keep)).rejects.toThrow("not now");
  await expect(outgoing.send({ big: 1n }, keep)).rejects.toThrow(/BigInt/);
  broken = false;
  await outgoing.send({}, keep);
});
