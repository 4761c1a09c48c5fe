import type { ReadStream } from "node:tty";
import type { StreamName } from "../../anchor/host-interface.js";
import { defaults } from "../../defaults.js";
import type { Run } from "../../supervisor/api.js";
import { type FdWriter, WriteFailed } from "../print/write-output.js";
import { watchForeground } from "./controlling-terminal.js";

/** The parts of a run that the foreground needs. */
export type ForegroundRun = Pick<
  Run,
  | "runId"
  | "state"
  | "survivors"
  | "service"
  | "end"
  | "cancel"
  | "write"
  | "closeStdin"
  | "resize"
  | "follow"
> & {
  /** Resolves when the run can no longer be observed, although it has not ended. */
  readonly unreachable: Promise<undefined>;
};

/**
 * Forwards stdin to the run, one piece at a time: the next piece is read when the anchor has the last one. The end of
 * stdin closes the run's stdin. A stdin that cannot be read (a directory, for example) counts as ended. With `onEnd`, which
 * is told of the end, it is read to its end even if the run does not take it any more.
 */
export function forwardStdin(
  run: ForegroundRun,
  stdin: ReadStream,
  onEnd: (() => void) | null = null,
): Disposable {
  let over = false;
  let ended = false;
  let busy = false;
  let allowed = true;

  const stop = (): void => {
    if (onEnd !== null) return drop();
    over = true;
    // The writer on the other side learns that its input is not read any more.
    stdin.destroy();
  };
  const drop = (): void => {
    over = true;
    stdin.resume();
  };
  const close = (): void => {
    if (!ended) onEnd?.();
    ended = true;
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
    if (over) return;
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
  from = 0,
): Promise<void> {
  let failed = false;
  let next = from;
  const buffer = new Uint8Array(defaults.followBytes);
  for await (const { offset, bytes } of run.follow({ streams: [stream], ack: true, buffer })) {
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
