import { SerialQueue } from "../../async/concurrency.js";
import { write, writeSync } from "node:fs";
import { isatty } from "node:tty";
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
  readonly #writes = new SerialQueue();
  #pending = 0;

  constructor(fd: 1 | 2) {
    this.#fd = fd;
  }

  /** A write has not returned: a thread hangs in it, and a normal exit would wait for that thread. */
  get hasPendingWrite(): boolean {
    return this.#pending > 0;
  }

  /** Resolves when everything so far was written or has failed. */
  idle(): Promise<unknown> {
    return this.#writes.idle();
  }

  /** Resolves when the system has every byte. Rejects with WriteFailed. */
  write(data: Uint8Array | string): Promise<void> {
    const bytes = typeof data === "string" ? Buffer.from(data) : data;
    this.#pending += 1;
    return this.#writes.run(() => this.#writeAll(bytes).finally(() => (this.#pending -= 1)));
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

/**
 * A console of Windows as a stream. Its own writes convert UTF-8 and terminal sequences; those of a descriptor depend on
 * the code page. Null: everything else.
 */
export function consoleStream(fd: 1 | 2): NodeJS.WriteStream | null {
  if (process.platform !== "win32" || !isatty(fd)) return null;
  return fd === 1 ? process.stdout : process.stderr;
}

function writeSome(fd: 1 | 2, bytes: Uint8Array, at: number): Promise<number | NodeJS.ErrnoException> {
  return new Promise((resolve) => {
    const stream = consoleStream(fd);
    if (stream !== null)
      return void stream.write(bytes.subarray(at), (error) => resolve(error ?? bytes.length - at));
    write(fd, bytes, at, bytes.length - at, null, (error, written) => resolve(error ?? written));
  });
}

/** Writes text to stdout. A reader that closed the pipe early (`| head`) is no error. */
export function print(text: string): void {
  try {
    printOrThrow(text);
  } catch (error) {
    if (!(error instanceof WriteFailed && error.readerGone)) throw error;
  }
}

/** Writes output that cannot be printed again; a failed write is an error that begins with `otherwise`. */
export function printRequired(text: string, otherwise: string): void {
  try {
    printOrThrow(text);
  } catch (cause) {
    throw new Error(`${otherwise}: ${(cause as Error).message}`, { cause });
  }
}

/** For a command that follows something: it ends with its reader. Throws WriteFailed. */
export function printOrThrow(text: string): void {
  const stream = consoleStream(1);
  if (stream !== null) return void stream.write(text);
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(1, bytes, at);
    } catch (error) {
      const cause = error as NodeJS.ErrnoException;
      if (cause.code !== "EAGAIN") throw new WriteFailed(1, cause);
      // Another process that shares the descriptor made it non-blocking: wait for the reader.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}

/** Characters that a terminal acts on or does not show, and that JSON allows unescaped. */
const INVISIBLE = /[\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]/gu;

/** JSON with such characters escaped. */
export function toJson(value: unknown, indent = 0): string {
  const text = JSON.stringify(value, null, indent).replaceAll(INVISIBLE, (character) =>
    Array.from({ length: character.length }, (_, at) => escapeCodeUnit(character.charCodeAt(at))).join(""),
  );
  return `${text}\n`;
}

function escapeCodeUnit(code: number): string {
  return `\\u${code.toString(16).padStart(4, "0")}`;
}

/** How the id of a record is called, by its prefix. */
const ID_FIELDS: Readonly<Record<string, string>> = {
  ses_: "sessionId",
  apr_: "approvalId",
  prm_: "permissionId",
  msg_: "messageId",
};

/** The same for records of the API that call their own id `id`: adds it as `sessionId`, `approvalId` and so on. */
export function toRecordJson(value: unknown, indent = 0): string {
  return toJson(withIdFields(value), indent);
}

function withIdFields(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withIdFields);
  if (typeof value !== "object" || value === null) return value;
  const fields = Object.entries(value).map(([name, inner]) => [name, withIdFields(inner)] as const);
  const id: unknown = "id" in value ? value.id : null;
  const name = typeof id === "string" ? ID_FIELDS[id.slice(0, 4)] : undefined;
  return Object.fromEntries(name === undefined || name in value ? fields : [[name, id], ...fields]);
}
