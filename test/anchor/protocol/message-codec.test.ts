import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FrameDecoder, FrameEncoder, MalformedFrame } from "../../../src/anchor/protocol/frame.js";
import {
  type AnchorMessage,
  type AnchorMessageName,
  decodeMessage,
  encodeMessage,
} from "../../../src/anchor/protocol/message-codec.js";
import { type MessageField, messages } from "../../../src/anchor/protocol/messages.js";

function decodeOne(bytes: Buffer): AnchorMessage | null {
  const [frame] = new FrameDecoder().push(bytes);
  if (frame === undefined) throw new Error("no frame");
  return decodeMessage(frame);
}

function valueOf({ kind, cardinality: presence }: MessageField): fc.Arbitrary<unknown> {
  const value = {
    int: fc.maxSafeNat(),
    id: fc.bigInt({ min: 0n, max: 0xffff_ffff_ffff_ffffn }).map(String),
    text: fc.string({ unit: "grapheme" }).map((text) => text.replaceAll("\0", "")),
    bytes: fc.uint8Array().map((bytes) => Buffer.from(bytes)),
    flag: fc.boolean(),
  }[kind];
  if (presence === "list") return fc.array<unknown>(value, { maxLength: 5 });
  return presence === "maybe" ? fc.option<unknown>(value) : value;
}

function contentOf(name: AnchorMessageName): fc.Arbitrary<Record<string, unknown>> {
  const fields: Record<string, fc.Arbitrary<unknown>> = {};
  for (const [key, field] of Object.entries<MessageField>(messages[name].fields))
    fields[key] = valueOf(field);
  return fc.record(fields);
}

const names = Object.keys(messages) as AnchorMessageName[];

describe("messages", () => {
  test.each(names)("%s is the same after encoding and decoding", (name) => {
    fc.assert(
      fc.property(contentOf(name), (content) => {
        expect(decodeOne(encodeMessage(name, content as never))).toEqual({ name, ...content });
      }),
    );
  });

  test.each(names)("%s is decoded with unknown fields of a later version", (name) => {
    fc.assert(
      fc.property(
        contentOf(name),
        fc.integer({ min: 200, max: 255 }),
        fc.uint8Array(),
        (content, tag, data) => {
          const field = Buffer.alloc(5 + data.length);
          field.writeUInt8(tag, 0);
          field.writeUInt32LE(data.length, 1);
          field.set(data, 5);
          const frame = encodeMessage(name, content as never);
          const longer = Buffer.concat([frame.subarray(0, 5), field, frame.subarray(5), field]);
          longer.writeUInt32LE(longer.length - 4, 0);
          expect(decodeOne(longer)).toEqual({ name, ...content });
        },
      ),
      { numRuns: 20 },
    );
  });

  test("an unknown type of a later version is not an error", () => {
    expect(decodeOne(new FrameEncoder(200).finish())).toBeNull();
  });

  test("a message without a required field is malformed", () => {
    expect(() => decodeOne(new FrameEncoder(messages.output.type).finish())).toThrow(MalformedFrame);
  });

  test("the run id is the first field of START", () => {
    const [key, field] = Object.entries<MessageField>(messages.start.fields)[0] ?? [];
    expect([key, field?.tag]).toEqual(["runId", 2]);
  });

  test("no two messages share a type, and no two fields of a message share a tag", () => {
    const types = Object.values(messages).map(({ type }) => type);
    expect(new Set(types).size).toBe(types.length);
    for (const { fields } of Object.values(messages)) {
      const tags = Object.values<MessageField>(fields).map(({ tag }) => tag);
      expect(new Set(tags).size).toBe(tags.length);
    }
  });

  test("the bytes are those of the protocol documentation", () => {
    const write = encodeMessage("write", { offset: 258, data: Buffer.from("hi") });
    expect(write.toString("hex")).toBe(
      ["15000000", "06", "1308000000", "0201000000000000", "1902000000", "6869"].join(""),
    );
    expect(encodeMessage("go", {}).toString("hex")).toBe("0100000004");
  });
});
