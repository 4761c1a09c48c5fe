import type { AttachClientMessage, AttachServerMessage } from "../../../src/api/attach-frames.js";
import { openSocket } from "./client.js";

export type { AttachClientMessage, AttachServerMessage };

/** Bytes of a stream of a run, from an offset on. */
interface Frame {
  readonly stream: "stdout" | "stderr";
  readonly offset: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** One byte for the stream (1, 2), eight for the offset. */
const HEADER_BYTES = 9;

/** Opens the stream of a run's output from an offset of its stdout on, which also takes input. */
export function openAttachSocket(runId: string, stdout: number): WebSocket {
  const socket = openSocket(`/v1/runs/${encodeURIComponent(runId)}/attach?stdout=${stdout}`);
  socket.binaryType = "arraybuffer";
  return socket;
}

export function decodeFrame(data: ArrayBuffer): Frame {
  const view = new DataView(data);
  return {
    stream: view.getUint8(0) === 2 ? "stderr" : "stdout",
    offset: Number(view.getBigUint64(1)),
    bytes: new Uint8Array(data, HEADER_BYTES),
  };
}
