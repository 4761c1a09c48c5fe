import type { ReadStream } from "node:tty";
import type { StreamName } from "../../anchor/host.js";
import { type FdWriter, WriteFailed } from "../print/fd-writer.js";
import type { ForegroundRun } from "./foreground-runner.js";
import { watchForeground } from "./terminal.js";

/**
 * Forwards stdin to the run, one piece at a time: the next piece is read when the anchor has the last one. The end of
 * stdin closes the run's stdin. A stdin that cannot be read (a directory, for example) counts as ended.
 */
export function forwardStdin(run: ForegroundRun, stdin: ReadStream): Disposable {
  let over = false;
  let busy = false;
  let allowed = true;

  const stop = (): void => {
    over = true;
    // The writer on the other side learns that its input is not read any more.
    stdin.destroy();
  };
  const close = (): void => {
    if (over) return;
    over = true;
    run.closeStdin().catch(stop);
  };
  const readOrNot = (): void => {
    if (over) return;
    if (allowed && !busy) stdin.resume();
    else stdin.pause();
  };

  stdin.on("data", (piece: Buffer) => {
    busy = true;
    readOrNot();
    run.write(piece).then(() => {
      busy = false;
      readOrNot();
    }, stop);
  });
  stdin.on("end", close);
  stdin.on("error", close);
  // Reading a terminal from the background would stop this process (SIGTTIN), and the run's output with it.
  const watch = stdin.isTTY
    ? watchForeground((foreground) => {
        allowed = foreground;
        readOrNot();
      })
    : null;
  readOrNot();
  return { [Symbol.dispose]: () => watch?.[Symbol.dispose]() };
}

/**
 * Forwards one stream of the run to a descriptor; each byte is freed after it was written. After a failed write the
 * rest is read and dropped, so that the run can end. Nothing is freed before that, so missing bytes (`onGap`) are
 * lost.
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
