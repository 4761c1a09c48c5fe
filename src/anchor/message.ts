import { type Frame, FieldReader, MalformedFrame } from "./frame.js";
import { FrameWriter } from "./frame-writer.js";
import { type Field, type FieldKind, messages } from "./protocol.js";

type Messages = typeof messages;
export type MessageName = keyof Messages;

type Value<K extends FieldKind> = K extends "int"
  ? number
  : K extends "flag"
    ? boolean
    : K extends "bytes"
      ? Uint8Array
      : string;

type FieldValue<F> =
  F extends Field<infer K, infer P>
    ? P extends "list"
      ? readonly Value<K>[]
      : P extends "maybe"
        ? Value<K> | null
        : Value<K>
    : never;

/** The fields of one message, as values. */
export type Content<N extends MessageName> = {
  readonly [F in keyof Messages[N]["fields"]]: FieldValue<Messages[N]["fields"][F]>;
};

export type Message = { [N in MessageName]: { readonly name: N } & Content<N> }[MessageName];

interface Shape {
  readonly name: MessageName;
  readonly type: number;
  readonly fields: readonly (readonly [string, Field])[];
  /** By tag, so that decoding a field is one lookup. */
  readonly byTag: readonly (readonly [string, Field] | undefined)[];
}

const shapes = Object.fromEntries(
  Object.entries(messages).map(([name, { type, fields }]) => {
    const entries = Object.entries<Field>(fields);
    const byTag: (readonly [string, Field])[] = [];
    for (const entry of entries) byTag[entry[1].tag] = entry;
    return [name, { name, type, fields: entries, byTag }];
  }),
) as unknown as Record<MessageName, Shape>;

const shapeByType: readonly (Shape | undefined)[] = Object.values(shapes).reduce<Shape[]>((all, shape) => {
  all[shape.type] = shape;
  return all;
}, []);

/** Throws BadInput, naming the field, when a value cannot be expressed. */
export function encodeMessage<N extends MessageName>(
  name: N,
  content: Content<N>,
  sizeHint?: number,
): Buffer {
  const shape = shapes[name];
  const writer = new FrameWriter(shape.type, sizeHint);
  const values = content as Readonly<Record<string, unknown>>;
  for (const [key, field] of shape.fields) {
    const value = values[key];
    if (field.presence === "list") {
      for (const item of value as readonly unknown[]) writeField(writer, field, item, key);
    } else if (value !== null) {
      writeField(writer, field, value, key);
    }
  }
  return writer.finish();
}

function writeField(writer: FrameWriter, { tag, kind }: Field, value: unknown, key: string): void {
  switch (kind) {
    case "int":
      return writer.int(tag, value as number, key);
    case "id":
      return writer.id(tag, value as string, key);
    case "text":
      return writer.text(tag, value as string, key);
    case "bytes":
      return writer.bytes(tag, value as Uint8Array);
    case "flag":
      if (value === true) writer.int(tag, 1, key);
      return;
  }
}

/** Null: a type this version does not know. Throws MalformedFrame when a known one is not as agreed. */
export function decodeMessage(frame: Frame): Message | null {
  const shape = shapeByType[frame.type];
  if (shape === undefined) return null;
  const values: Record<string, unknown> = { name: shape.name };
  for (const [key, { kind, presence }] of shape.fields) {
    values[key] =
      presence === "list" ? [] : kind === "flag" ? false : presence === "maybe" ? null : undefined;
  }
  const reader = new FieldReader(frame.body);
  while (reader.advance()) {
    const entry = shape.byTag[reader.tag];
    // Unknown tags are how the protocol grows.
    if (entry === undefined) continue;
    const [key, field] = entry;
    const value = readField(reader, field.kind);
    if (field.presence === "list") (values[key] as unknown[]).push(value);
    else values[key] = value;
  }
  for (const [key] of shape.fields) {
    if (values[key] === undefined) throw new MalformedFrame(`a ${shape.name} message without ${key}`);
  }
  return values as unknown as Message;
}

function readField(reader: FieldReader, kind: FieldKind): unknown {
  switch (kind) {
    case "int":
      return reader.int();
    case "id":
      return reader.id();
    case "text":
      return reader.text();
    case "bytes":
      return reader.bytes();
    case "flag":
      return reader.int() !== 0;
  }
}
