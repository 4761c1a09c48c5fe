import { spawnSync } from "node:child_process";
import { fstatSync, readFileSync } from "node:fs";
import { isatty, type ReadStream, WriteStream } from "node:tty";
import type { TerminalSize } from "../../anchor/host-interface.js";

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
