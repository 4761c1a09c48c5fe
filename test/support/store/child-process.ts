import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

export interface ChildHandle extends AsyncDisposable {
  /** The next message of the child; rejects if the child ended without one. */
  next(): Promise<unknown>;
  send(message: unknown): void;
  kill(): Promise<void>;
  /** Its exit code; null: a signal ended it. */
  readonly ended: Promise<number | null>;
}

/** A real process that runs `children/<script>.mjs`, from here or beside another file, and talks over Node's channel. */
export function startChild(script: string, ...args: readonly string[]): ChildHandle {
  return startChildBeside(import.meta.url, script, ...args);
}

export function startChildBeside(file: string, script: string, ...args: readonly string[]): ChildHandle {
  const path = fileURLToPath(new URL(`children/${script}.mjs`, file));
  const child = fork(path, args, { execArgv: [], stdio: ["ignore", "inherit", "pipe", "ipc"] });
  const received: unknown[] = [];
  const waiting: { resolve(message: unknown): void; reject(error: Error): void }[] = [];
  let stderr = "";
  let over = false;
  child.stderr?.on("data", (text: Buffer) => (stderr += text.toString()));
  child.on("message", (message) => {
    const first = waiting.shift();
    if (first === undefined) received.push(message);
    else first.resolve(message);
  });
  const ended = once(child, "close").then(([code]: (number | null)[]) => {
    over = true;
    for (const one of waiting) one.reject(new Error(`${script} ended: ${stderr}`));
    return code ?? null;
  });
  return {
    next: () =>
      new Promise((resolve, reject) => {
        if (received.length > 0) resolve(received.shift());
        else if (over) reject(new Error(`${script} has ended: ${stderr}`));
        else waiting.push({ resolve, reject });
      }),
    send: (message) => void child.send(message as object),
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
    ended,
    async [Symbol.asyncDispose]() {
      if (!over) child.kill("SIGKILL");
      await ended;
    },
  };
}
