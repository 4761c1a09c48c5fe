import { spawnSync } from "node:child_process";
import { fstatSync, readFileSync } from "node:fs";
import { isatty, type ReadStream, WriteStream } from "node:tty";
import type { StreamName, TerminalSize } from "../../anchor/host.js";
import type { Run } from "../../supervisor/api.js";
import { type FdWriter, WriteFailed } from "../print/write-output.js";

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

/** A shell brings a running job to the foreground (`fg`) without a signal, so this is polled. */
const BACKGROUND_POLL_MS = 200;

/** True if stdin, stdout and stderr are one terminal. */
export function isSameTerminal(): boolean {
  if (![0, 1, 2].every((fd) => isatty(fd))) return false;
  const [stdin, ...others] = [0, 1, 2].map((fd) => fstatSync(fd).rdev);
  return others.every((device) => device === stdin);
}

/** True if this process is in the foreground of its terminal. True if the kernel does not report it. */
export function isForegroundProcess(): boolean {
  if (process.platform !== "linux") return true;
  try {
    const stat = readFileSync("/proc/self/stat", "utf8");
    const [, , group, , , foregroundGroup] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return group === foregroundGroup;
  } catch {
    return true;
  }
}

/** Calls the listener now, after SIGCONT, and when the terminal is given back to this process. */
export function watchForeground(listener: (foreground: boolean) => void): Disposable {
  let timer: NodeJS.Timeout | null = null;
  const poll = (): void => {
    if (timer !== null) clearTimeout(timer);
    const foreground = isForegroundProcess();
    timer = foreground ? null : setTimeout(poll, BACKGROUND_POLL_MS);
    listener(foreground);
  };
  process.on("SIGCONT", poll);
  poll();
  return {
    [Symbol.dispose]: () => {
      process.off("SIGCONT", poll);
      if (timer !== null) clearTimeout(timer);
    },
  };
}

/** The size of the terminal that stdout, stderr or stdin is; null: none of them is a terminal. */
export function currentTerminalSize(): TerminalSize | null {
  const terminal = sizedTerminal();
  if (terminal === null) return null;
  const [cols, rows] = terminal.getWindowSize();
  // Serial lines and some containers report 0.
  return cols > 0 && rows > 0 ? { rows, cols } : null;
}

let inputAsOutput: WriteStream | null = null;

function sizedTerminal(): WriteStream | null {
  if (isatty(1)) return process.stdout;
  if (isatty(2)) return process.stderr;
  if (!isatty(0)) return null;
  return (inputAsOutput ??= new WriteStream(0));
}

/**
 * Passes every key to the PTY of the run, whose line discipline interprets Ctrl-C and Ctrl-Z, and reports changes of the
 * window size. Disposing restores the terminal; Node does so at exit in any case.
 */
export function enterRawTerminal(stdin: ReadStream, onResize: (size: TerminalSize) => void): Disposable {
  const resize = (): void => {
    const size = currentTerminalSize();
    if (size !== null) onResize(size);
  };
  const watch = watchForeground((foreground) => {
    // From the background, setting it would stop this process (SIGTTOU).
    if (foreground && stdin.isTTY) setRawMode(stdin);
    resize();
  });
  process.on("SIGWINCH", resize);
  return {
    [Symbol.dispose]: () => {
      process.off("SIGWINCH", resize);
      watch[Symbol.dispose]();
      if (stdin.isTTY && isForegroundProcess()) stdin.setRawMode(false);
    },
  };
}

function setRawMode(stdin: ReadStream): void {
  // Off first: Node does not set a mode again that it believes to be on, and a stop (SIGTSTP) has reset it.
  stdin.setRawMode(false);
  stdin.setRawMode(true);
  if (process.platform === "win32") return;
  // Node's raw mode still turns "\n" into "\r\n", which the PTY of the run has done already. Node restores the mode with
  // the rest. Without stty(1) it stays, with little effect.
  spawnSync("stty", ["-opost"], { stdio: ["inherit", "ignore", "ignore"] });
}

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
