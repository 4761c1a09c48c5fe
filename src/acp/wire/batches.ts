import { defaults } from "../../defaults.js";
import type { Frame } from "./frame-reader.js";

/** Frames to be handled together. */
export function* batches(frames: Iterable<Frame>): Generator<readonly Frame[], void, undefined> {
  let batch: Frame[] = [];
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
