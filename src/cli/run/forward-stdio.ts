import type { ReadStream } from "node:tty";
import type { ForegroundRun } from "./foreground-runner.js";
import { watchForeground } from "./terminal.js";

/**
 * Our stdin to the run's, one piece at a time: the next is read when the anchor holds the last.
 * Its end is the run's end of input. A stdin that cannot be read (a directory, say) has ended.
 */
export function forwardStdin(run: ForegroundRun, stdin: ReadStream): Disposable {
  let over = false;
  let busy = false;
  let allowed = true;

  const stop = (): void => {
    over = true;
    // So that whoever feeds us learns that nobody takes it any more.
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
