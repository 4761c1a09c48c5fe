import type { StreamName, TerminalSize } from "../anchor/host-interface.js";
import type { Survivor } from "../model/process.js";
import { BadInput } from "../errors.js";
import type { RunRecord, RunStateName, ServiceFacts } from "../model/run.js";

/** Text messages to viewers and callers. Output is sent in binary frames. */
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
  /** A notification of the channel `bell`, for connections with `bell=1`. */
  | { readonly type: "bell" }
  /** To a caller: its input up to here is with the anchor. */
  | { readonly type: "accepted"; readonly offset: number }
  /** To a caller: its input is no longer accepted. */
  | { readonly type: "unread"; readonly message: string }
  /** To a caller: how the run is, when that changes. */
  | {
      readonly type: "state";
      readonly state: RunStateName;
      readonly survivors: readonly Survivor[];
      /** Not null: the run became a service, which continues without its caller. */
      readonly service: ServiceFacts | null;
    }
  /** Null: the end is not known here. It may arrive before the last output; the connection closes after both. */
  | {
      readonly type: "ended";
      readonly record: RunRecord | null;
      /** Why the record is not written yet; null: it is, or nothing is known of the end. */
      readonly recordPending: string | null;
    };

/** Text messages of viewers and callers. Binary frames are input: bytes of a viewer, frames with a header of a caller. */
export type AttachClientMessage =
  | { readonly type: "resize"; readonly rows: number; readonly cols: number }
  | { readonly type: "eof" }
  | { readonly type: "stop"; readonly graceMs?: number | undefined; readonly actor?: string | undefined }
  | { readonly type: "ack"; readonly stream: StreamName; readonly offset: number };

/** Close code: the gateway was stopped on request, so clients must not start it again. */
export const CLOSE_GATEWAY_STOPPED = 1001;
/** Close code: the stream is complete. */
export const CLOSE_COMPLETE = 1000;

const FRAME_STREAMS = ["stdin", "stdout", "stderr"] as const;
type FrameStream = (typeof FRAME_STREAMS)[number];

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
