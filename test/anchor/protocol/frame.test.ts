import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  FieldReader,
  FrameDecoder,
  FrameEncoder,
  MalformedFrame,
} from "../../../src/anchor/protocol/frame.js";
import { decodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { FRAME_MAX_BYTES, START_MAX_BYTES } from "../../../src/anchor/protocol/messages.js";
import { BadInput } from "../../../src/errors.js";
import { repetitions, scaled } from "../../support/scale.js";

/** Splits `bytes` at the given positions, in any order and with repetitions. */
function cutAt(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return places.slice(1).map((end, index) => bytes.subarray(places[index], end));
}

function decodeAll(chunks: readonly Buffer[]): { type: number; body: string }[] {
  const decoder = new FrameDecoder();
  return chunks
    .flatMap((chunk) => decoder.push(chunk))
    .map(({ type, body }) => ({ type, body: body.toString("hex") }));
}

const anyFrame = fc
  .record({
    type: fc.integer({ min: 0, max: 255 }),
    data: fc.uint8Array({ maxLength: 300 }),
    tag: fc.integer({ min: 0, max: 255 }),
  })
  .map(({ type, data, tag }) => {
    const writer = new FrameEncoder(type, 8);
    writer.bytes(tag, data);
    return writer.finish();
  });

describe("frames", () => {
  test("any split of a byte stream decodes to the same frames", () => {
    fc.assert(
      fc.property(
        fc.array(anyFrame, { maxLength: 8 }),
        fc.array(fc.nat(), { maxLength: 40 }),
        (frames, cuts) => {
          const bytes = Buffer.concat(frames);
          const whole = decodeAll([bytes]);
          expect(whole).toHaveLength(frames.length);
          expect(decodeAll(cutAt(bytes, cuts))).toEqual(whole);
        },
      ),
    );
  });

  test("one byte at a time decodes, too", () => {
    const bytes = Buffer.concat(fc.sample(anyFrame, 20));
    expect(decodeAll([...bytes].map((byte) => Buffer.of(byte)))).toEqual(decodeAll([bytes]));
  });

  test("garbage throws nothing but MalformedFrame", () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 200 }), { maxLength: 10 }), (chunks) => {
        const decoder = new FrameDecoder();
        try {
          for (const chunk of chunks)
            for (const frame of decoder.push(Buffer.from(chunk))) decodeMessage(frame);
        } catch (error) {
          expect(error).toBeInstanceOf(MalformedFrame);
        }
      }),
      { numRuns: repetitions(200, 2000) },
    );
  });

  test("well-framed garbage throws nothing but MalformedFrame", () => {
    const known = fc.constantFrom(
      1,
      2,
      3,
      4,
      5,
      6,
      7,
      8,
      9,
      10,
      11,
      12,
      64,
      65,
      66,
      67,
      68,
      69,
      70,
      71,
      72,
      73,
      74,
      75,
    );
    fc.assert(
      fc.property(known, fc.uint8Array({ maxLength: 200 }), (type, body) => {
        try {
          decodeMessage({ type, body: Buffer.from(body) });
        } catch (error) {
          expect(error).toBeInstanceOf(MalformedFrame);
        }
      }),
      { numRuns: repetitions(200, 2000) },
    );
  });

  test("a frame without a type is malformed", () => {
    expect(() => new FrameDecoder().push(Buffer.alloc(5))).toThrow(MalformedFrame);
  });

  test("a frame longer than its type allows is malformed as soon as its header is read", () => {
    const head = (length: number, type: number): Buffer => {
      const bytes = Buffer.alloc(5);
      bytes.writeUInt32LE(length, 0);
      bytes.writeUInt8(type, 4);
      return bytes;
    };
    expect(() => new FrameDecoder().push(head(FRAME_MAX_BYTES + 1, 6))).toThrow(MalformedFrame);
    expect(new FrameDecoder().push(head(FRAME_MAX_BYTES, 6))).toEqual([]);
    expect(new FrameDecoder().push(head(START_MAX_BYTES, 2))).toEqual([]);
    expect(() => new FrameDecoder().push(head(START_MAX_BYTES + 1, 2))).toThrow(MalformedFrame);
  });

  test("a large frame in small pieces takes time in proportion to its size", () => {
    const writer = new FrameEncoder(2);
    writer.bytes(48, Buffer.alloc(START_MAX_BYTES - 1024, 7));
    const bytes = writer.finish();
    const decoder = new FrameDecoder();
    const began = performance.now();
    let frames = 0;
    for (let at = 0; at < bytes.length; at += 1000)
      frames += decoder.push(bytes.subarray(at, at + 1000)).length;
    expect(frames).toBe(1);
    expect(performance.now() - began).toBeLessThan(scaled(1000));
  });
});

describe("fields", () => {
  test("every safe integer and every 64-bit id survives", () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.bigInt({ min: 0n, max: 0xffff_ffff_ffff_ffffn }), (number, id) => {
        const writer = new FrameEncoder(12, 5);
        writer.int(1, number, "n");
        writer.id(2, id.toString(), "id");
        const reader = new FieldReader(writer.finish().subarray(5));
        expect(reader.next()).toBe(true);
        expect(reader.int()).toBe(number);
        expect(reader.next()).toBe(true);
        expect(reader.id()).toBe(id.toString());
        expect(reader.next()).toBe(false);
      }),
    );
  });

  test("any text without NUL survives, short or long", () => {
    const text = fc.string({ unit: "grapheme", maxLength: 2000 }).map((value) => value.replaceAll("\0", ""));
    fc.assert(
      fc.property(text, (value) => {
        const writer = new FrameEncoder(12, 5);
        writer.text(3, value, "t");
        const reader = new FieldReader(writer.finish().subarray(5));
        reader.next();
        expect(reader.text()).toBe(value);
      }),
    );
  });

  test("a number that is not a whole number of 0 or more is refused with the name of the field", () => {
    for (const value of [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53]) {
      expect(() => new FrameEncoder(4).int(1, value, "graceMs")).toThrow(BadInput);
    }
    expect(() => new FrameEncoder(4).int(1, -1, "graceMs")).toThrow(/graceMs/);
  });

  test("a NUL in a text is refused by the encoder and malformed for the decoder", () => {
    expect(() => new FrameEncoder(4).text(1, "a\0b", "cwd")).toThrow(/cwd/);
    const writer = new FrameEncoder(4);
    writer.bytes(1, Buffer.from("a\0b"));
    const reader = new FieldReader(writer.finish().subarray(5));
    reader.next();
    expect(() => reader.text()).toThrow(MalformedFrame);
  });

  test("a number of another size, or beyond 2^53, is malformed", () => {
    const reader = new FieldReader(Buffer.from([9, 1, 0, 0, 0, 7]));
    reader.next();
    expect(() => reader.int()).toThrow(MalformedFrame);
    const writer = new FrameEncoder(4);
    writer.id(1, "9007199254740992", "id");
    const large = new FieldReader(writer.finish().subarray(5));
    large.next();
    expect(() => large.int()).toThrow(MalformedFrame);
    expect(large.id()).toBe("9007199254740992");
  });

  test("a frame that would be too long is not built", () => {
    const writer = new FrameEncoder(6);
    writer.bytes(25, Buffer.alloc(FRAME_MAX_BYTES));
    expect(() => writer.finish()).toThrow(BadInput);
  });
});
