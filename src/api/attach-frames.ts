import type { StreamName, TerminalSize } from "../anchor/host.js";
import type { Survivor } from "../model/process.js";
import { BadInput } from "../errors.js";
import type { RunRecord, RunStateName, ServiceFacts } from "../model/run.js";

/** What a gateway says to a viewer or a caller, as text; output comes as binary frames. */
export type AttachServerMessage =
  | {
      readonly type: "attached";
      readonly runId: string;
      readonly state: RunStateName;
      readonly size: TerminalSize | null;
      /** Bytes of its input that its anchor holds: from here on, a caller sends. */
      readonly accepted: number;
    }
  | { readonly type: "refused"; readonly message: string }
  /** A notification goes to the channel `bell`. To whoever asked for that (`bell=1`). */
  | { readonly type: "bell" }
  /** To a caller: its input up to here is with the anchor. */
  | { readonly type: "accepted"; readonly offset: number }
  /** To a caller: nobody takes its input any more. */
  | { readonly type: "unread"; readonly message: string }
  /** To a caller: how the run is, when that changes. */
  | {
      readonly type: "state";
      readonly state: RunStateName;
      readonly survivors: readonly Survivor[];
      /** Not null: a service was made of it, which goes on without its caller. */
      readonly service: ServiceFacts | null;
    }
  /** Null: its end is not known here. A caller may hear it before the last of the output; the close comes after that. */
  | {
      readonly type: "ended";
      readonly record: RunRecord | null;
      /** Why the record is not written yet; null: it is, or nothing is known of the end. */
      readonly recordPending: string | null;
    };

/** What a viewer or caller says, as text; binary frames are input: a viewer's are bytes, a caller's have a head. */
export type AttachClientMessage =
  | { readonly type: "resize"; readonly rows: number; readonly cols: number }
  | { readonly type: "eof" }
  | { readonly type: "stop"; readonly graceMs?: number | undefined; readonly actor?: string | undefined }
  | { readonly type: "ack"; readonly stream: StreamName; readonly offset: number };

/** The gateway leaves because it was told to: it is not to be started again by who was connected. */
export const CLOSE_GATEWAY_STOPPED = 1001;
/** Everything has been said. */
export const CLOSE_COMPLETE = 1000;

const FRAME_STREAMS = ["stdin", "stdout", "stderr"] as const;
export type FrameStream = (typeof FRAME_STREAMS)[number];

const HEADER_BYTES = 9;

/** One byte for the stream (0, 1, 2), eight for the offset, then the bytes. */
export function encodeFrame(stream: FrameStream, offset: number, bytes: Uint8Array): Buffer {
  const head = Buffer.alloc(HEADER_BYTES);
  head.writeUInt8(FRAME_STREAMS.indexOf(stream), 0);
  head.writeBigUInt64BE(BigInt(offset), 1);
  return Buffer.concat([head, bytes]);
}

export function decodeFrame(data: Buffer): {
  readonly stream: FrameStream;
  readonly offset: number;
  readonly bytes: Buffer;
} {
  const stream = data.length < HEADER_BYTES ? undefined : FRAME_STREAMS[data.readUInt8(0)];
  if (stream === undefined) throw new BadInput("frame", "a frame begins with its stream and its offset");
  return { stream, offset: Number(data.readBigUInt64BE(1)), bytes: data.subarray(HEADER_BYTES) };
}
