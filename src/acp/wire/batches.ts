import { defaults } from "../../defaults.js";
import type { AcpFrame } from "./frame-reader.js";

/** Frames to be handled together. */
export function* inBatches(frames: Iterable<AcpFrame>): Generator<readonly AcpFrame[], void, undefined> {
  let batch: AcpFrame[] = [];
  let failure: unknown = null;
  try {
    for (const frame of frames) {
      batch.push(frame);
      if (batch.length < defaults.acpBatchFrames) continue;
      yield batch;
      batch = [];
    }
  } catch (error) {
    failure = error;
  }
  // What came before the frame that cannot be read was said all the same.
  if (batch.length > 0) yield batch;
  if (failure !== null) throw failure as Error;
}
