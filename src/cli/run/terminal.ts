import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { isatty, WriteStream, type ReadStream } from "node:tty";
import type { TerminalSize } from "../../anchor/host.js";

/** Shells give the terminal back (`fg`) without a signal when the job was running; this is how often to look. */
const BACKGROUND_POLL_MS = 200;

/** Whether this process may use its terminal. Where that cannot be known, it is assumed. */
export function isForegroundProcess(): boolean {
  try {
    const stat = readFileSync("/proc/self/stat", "utf8");
    const [, , group, , , foregroundGroup] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return group === foregroundGroup;
  } catch {
    return true;
  }
}

/** Tells now, after every stop (SIGCONT), and when the terminal is given back to us. */
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

/** The size of the terminal we were started on, whichever of our descriptors is one; null when none is. */
export function currentTerminalSize(): TerminalSize | null {
  const terminal = sizedTerminal();
  if (terminal === null) return null;
  const [cols, rows] = terminal.getWindowSize();
  // Serial lines and some containers say 0.
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
 * Hands every key to the program behind the PTY, which has a line discipline of its own (Ctrl-C and Ctrl-Z are bytes
 * for it), and tells it when the window changes. Undone by disposing, and by Node at exit whatever happens.
 */
export function enterRawTerminal(stdin: ReadStream, onResize: (size: TerminalSize) => void): Disposable {
  const resize = (): void => {
    const size = currentTerminalSize();
    if (size !== null) onResize(size);
  };
  const watch = watchForeground((foreground) => {
    // From the background, setting it would stop us (SIGTTOU); there it is the shell's.
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
  // Off first: while it is on by its own account, Node would not set it again after a stop.
  stdin.setRawMode(false);
  stdin.setRawMode(true);
  // Node's raw mode goes on turning "\n" into "\r\n", which the PTY has done already, or which a full-screen program
  // did not want. Node restores it with the rest. Without stty(1) it stays like that, mostly unnoticed.
  spawnSync("stty", ["-opost"], { stdio: ["inherit", "ignore", "ignore"] });
}
