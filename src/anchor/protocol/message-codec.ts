import { type AnchorFrame, FieldReader, FrameEncoder, MalformedFrame } from "./frame.js";
import { type FieldKind, type MessageField, messages } from "./messages.js";

type Messages = typeof messages;
export type AnchorMessageName = keyof Messages;

type FieldKindValue<K extends FieldKind> = K extends "int"
  ? number
  : K extends "flag"
    ? boolean
    : K extends "bytes"
      ? Uint8Array
      : string;

type FieldValue<F> =
  F extends MessageField<infer K, infer P>
    ? P extends "list"
      ? readonly FieldKindValue<K>[]
      : P extends "maybe"
        ? FieldKindValue<K> | null
        : FieldKindValue<K>
    : never;

/** The values of the fields of one message. */
export type MessageFields<N extends AnchorMessageName> = {
  readonly [F in keyof Messages[N]["fields"]]: FieldValue<Messages[N]["fields"][F]>;
};

export type AnchorMessage = {
  [N in AnchorMessageName]: { readonly name: N } & MessageFields<N>;
}[AnchorMessageName];

interface MessageLayout {
  readonly name: AnchorMessageName;
  readonly type: number;
  readonly fields: readonly (readonly [string, MessageField])[];
  /** By tag, so that decoding a field is one lookup. */
  readonly byTag: readonly (readonly [string, MessageField] | undefined)[];
}

const layouts = Object.fromEntries(
  Object.entries(messages).map(([name, { type, fields }]) => {
    const entries = Object.entries<MessageField>(fields);
    const byTag: (readonly [string, MessageField])[] = [];
    for (const entry of entries) byTag[entry[1].tag] = entry;
    return [name, { name, type, fields: entries, byTag }];
  }),
) as unknown as Record<AnchorMessageName, MessageLayout>;

const layoutByType: readonly (MessageLayout | undefined)[] = Object.values(layouts).reduce<MessageLayout[]>(
  (all, layout) => {
    all[layout.type] = layout;
    return all;
  },
  [],
);

/** Throws BadInput with the name of the field if a value cannot be encoded. */
export function encodeMessage<N extends AnchorMessageName>(
  name: N,
  content: MessageFields<N>,
  sizeHint?: number,
): Buffer {
  const layout = layouts[name];
  const writer = new FrameEncoder(layout.type, sizeHint);
  const values = content as Readonly<Record<string, unknown>>;
  for (const [key, field] of layout.fields) {
    const value = values[key];
    if (field.cardinality === "list") {
      for (const item of value as readonly unknown[]) writeField(writer, field, item, key);
    } else if (value !== null) {
      writeField(writer, field, value, key);
    }
  }
  return writer.finish();
}

function writeField(writer: FrameEncoder, { tag, kind }: MessageField, value: unknown, key: string): void {
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

/** Null if this version does not know the type. Throws MalformedFrame if a known message is invalid. */
export function decodeMessage(frame: AnchorFrame): AnchorMessage | null {
  const layout = layoutByType[frame.type];
  if (layout === undefined) return null;
  const values: Record<string, unknown> = { name: layout.name };
  for (const [key, { kind, cardinality: presence }] of layout.fields) {
    values[key] =
      presence === "list" ? [] : kind === "flag" ? false : presence === "maybe" ? null : undefined;
  }
  const reader = new FieldReader(frame.body);
  while (reader.next()) {
    const entry = layout.byTag[reader.tag];
    // Unknown tags are skipped, so that the protocol can be extended.
    if (entry === undefined) continue;
    const [key, field] = entry;
    const value = readField(reader, field.kind);
    if (field.cardinality === "list") (values[key] as unknown[]).push(value);
    else values[key] = value;
  }
  for (const [key] of layout.fields) {
    if (values[key] === undefined) throw new MalformedFrame(`a ${layout.name} message without ${key}`);
  }
  return values as unknown as AnchorMessage;
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
