import type { StreamName } from "../../anchor/host.js";
import type { ForegroundRun } from "../run/foreground-runner.js";
import { WriteFailed, type FdWriter } from "../print/fd-writer.js";

/**
 * One stream of the run to one descriptor of ours, each byte freed only after it has been written. Once that fails,
 * the rest is taken and dropped, so that the run can end. Nothing is freed before that, so bytes that are left out
 * (`onGap`) are lost.
 */
export async function forwardOutput(
  run: ForegroundRun,
  stream: StreamName,
  writer: FdWriter,
  onFailure: (failure: WriteFailed) => void,
  onGap: (bytes: number) => void,
  shown: (bytes: Uint8Array) => Uint8Array | string = (bytes) => bytes,
): Promise<void> {
  let failed = false;
  let next = 0;
  for await (const { offset, bytes } of run.follow({ streams: [stream], ack: true })) {
    if (offset > next) onGap(offset - next);
    next = offset + bytes.length;
    if (failed || bytes.length === 0) continue;
    try {
      await writer.write(shown(bytes));
    } catch (error) {
      if (!(error instanceof WriteFailed)) throw error;
      failed = true;
      onFailure(error);
    }
  }
}
