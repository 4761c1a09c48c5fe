import { write } from "node:fs";
import { setTimeout } from "node:timers/promises";

/** Another process that shares the descriptor made it non-blocking: the time between two attempts. */
const RETRY_MS = { first: 1, most: 20 } as const;

/** There is no reader: the pipe is closed, or the terminal has hung up. */
const READER_GONE_CODES: ReadonlySet<string> = new Set(["EPIPE", "EIO", "ECONNRESET", "ENXIO"]);

export class WriteFailed extends Error {
  readonly readerGone: boolean;
  constructor(fd: number, cause: NodeJS.ErrnoException) {
    super(`cannot write ${fd === 1 ? "stdout" : "stderr"}: ${cause.message}`, { cause });
    this.readerGone = READER_GONE_CODES.has(cause.code ?? "");
  }
}

/**
 * Writes to a descriptor in order, and never blocks the event loop: with a stalled reader, deadlines, leases and
 * Ctrl-C must still work. `process.stdout` blocks on pipes and terminals, and a non-blocking descriptor would be so
 * for every process that shares it.
 */
export class FdWriter {
  readonly #fd: 1 | 2;
  #last: Promise<void> = Promise.resolve();
  #pending = 0;

  constructor(fd: 1 | 2) {
    this.#fd = fd;
  }

  /** A write has not returned: a thread hangs in it, and a normal exit would wait for that thread. */
  get hasPendingWrite(): boolean {
    return this.#pending > 0;
  }

  /** Resolves when everything so far was written or has failed. */
  idle(): Promise<void> {
    return this.#last;
  }

  /** Resolves when the system has every byte. Rejects with WriteFailed. */
  write(data: Uint8Array | string): Promise<void> {
    const bytes = typeof data === "string" ? Buffer.from(data) : data;
    this.#pending += 1;
    const done = this.#last.then(() => this.#writeAll(bytes));
    this.#last = done.catch(() => {}).finally(() => (this.#pending -= 1));
    return done;
  }

  async #writeAll(bytes: Uint8Array): Promise<void> {
    let wait: number = RETRY_MS.first;
    for (let at = 0; at < bytes.length;) {
      const written = await writeSome(this.#fd, bytes, at);
      if (typeof written === "number") {
        at += written;
        wait = RETRY_MS.first;
      } else if (written.code === "EAGAIN") {
        await setTimeout(wait);
        wait = Math.min(wait * 2, RETRY_MS.most);
      } else {
        throw new WriteFailed(this.#fd, written);
      }
    }
  }
}

function writeSome(fd: number, bytes: Uint8Array, at: number): Promise<number | NodeJS.ErrnoException> {
  return new Promise((resolve) => {
    write(fd, bytes, at, bytes.length - at, null, (error, written) => resolve(error ?? written));
  });
}
