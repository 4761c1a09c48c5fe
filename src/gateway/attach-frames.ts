import type { StreamName, TerminalSize } from "../anchor/host.js";
import type { RunRecord, RunStateName } from "../store/run-record.js";

/** What a gateway says to a viewer, as text; output comes as binary frames. */
export type ToViewer =
  | {
      readonly type: "attached";
      readonly runId: string;
      readonly state: RunStateName;
      readonly size: TerminalSize | null;
    }
  | { readonly type: "refused"; readonly message: string }
  /** Null: its end is not known here. */
  | { readonly type: "ended"; readonly record: RunRecord | null };

/** What a viewer says, as text; binary frames are input. */
export type FromViewer =
  | { readonly type: "resize"; readonly rows: number; readonly cols: number }
  | { readonly type: "eof" }
  | { readonly type: "stop"; readonly graceMs?: number | undefined }
  | { readonly type: "ack"; readonly stream: StreamName; readonly offset: number };

const HEAD = 9;

/** One byte for the stream (1, 2), eight for the offset, then the bytes. */
export function frame(stream: StreamName, offset: number, bytes: Uint8Array): Buffer {
  const head = Buffer.alloc(HEAD);
  head.writeUInt8(stream === "stdout" ? 1 : 2, 0);
  head.writeBigUInt64BE(BigInt(offset), 1);
  return Buffer.concat([head, bytes]);
}

export function unframe(data: Buffer): {
  readonly stream: StreamName;
  readonly offset: number;
  readonly bytes: Buffer;
} {
  return {
    stream: data.readUInt8(0) === 1 ? "stdout" : "stderr",
    offset: Number(data.readBigUInt64BE(1)),
    bytes: data.subarray(HEAD),
  };
}
