import type { StreamName } from "../../anchor/host.js";
import type { ForegroundRun } from "./host.js";
import { OutletFailed, type Outlet } from "./outlet.js";

/**
 * One stream of the run to one descriptor of ours, each byte freed only after it has been written. Once that fails,
 * the rest is taken and dropped, so that the run can end.
 */
export async function passOutput(
  run: ForegroundRun,
  stream: StreamName,
  outlet: Outlet,
  onFailure: (failure: OutletFailed) => void,
  shown: (bytes: Uint8Array) => Uint8Array | string = (bytes) => bytes,
): Promise<void> {
  let failed = false;
  for await (const { bytes } of run.follow({ streams: [stream], ack: true })) {
    if (failed) continue;
    try {
      await outlet.write(shown(bytes));
    } catch (error) {
      if (!(error instanceof OutletFailed)) throw error;
      failed = true;
      onFailure(error);
    }
  }
}
