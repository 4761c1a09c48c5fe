import { open, type FileHandle } from "node:fs/promises";
import { dirname } from "node:path";
import { WRITE_FLAGS } from "../../home/own-file.js";
import { renameFile } from "../../home/rename-file.js";

interface QueuedLine {
  readonly text: string;
  readonly durable: boolean;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** The file is rewritten when it exceeds this size and twice its size after the last rewrite. */
const COMPACT_BYTES = 4 * 1024 * 1024;

/** An append-only file with one JSON value per line. Concurrent writers share one fdatasync. */
export class AppendLog implements AsyncDisposable {
  readonly #path: string;
  readonly #snapshot: () => readonly unknown[];
  #file: FileHandle;
  #bytes = 0;
  #compactBytes = 0;
  #queue: QueuedLine[] = [];
  #writing: Promise<void> | null = null;
  /** A write failed: the file may end in an incomplete line, and lacks lines that are in memory. */
  #torn = false;

  private constructor(path: string, file: FileHandle, snapshot: () => readonly unknown[]) {
    this.#path = path;
    this.#file = file;
    this.#snapshot = snapshot;
  }

  /** `snapshot` returns the lines of a rewritten file; they must contain everything that was appended. */
  static async open(path: string, snapshot: () => readonly unknown[]): Promise<AppendLog> {
    const log = new AppendLog(path, await open(path, WRITE_FLAGS.append, 0o600), snapshot);
    // Rewritten, so that nothing is appended to an incomplete line.
    await log.#compact();
    return log;
  }

  /** Resolves when the line is in the file; if it is `durable`, when it survives power loss. */
  append(line: unknown, durable: boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ text: `${JSON.stringify(line)}\n`, durable, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writing?.catch(() => undefined);
    await this.#file.close();
  }

  /** Never rejects. Lines that arrive while a batch is written share the next batch and its sync. */
  async #write(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0);
      try {
        // The snapshot contains this batch, too.
        if (this.#torn) await this.#compact();
        else await this.#appendBatch(batch);
        for (const { resolve } of batch) resolve();
        if (this.#bytes > Math.max(COMPACT_BYTES, 2 * this.#compactBytes)) await this.#compact();
      } catch (error) {
        this.#torn = true;
        for (const { reject } of batch) reject(error);
      }
    }
    // In the same step as the last check of the queue, so that the next append starts a new writer.
    this.#writing = null;
  }

  async #appendBatch(batch: readonly QueuedLine[]): Promise<void> {
    const text = batch.map((each) => each.text).join("");
    await this.#file.appendFile(text);
    this.#bytes += Buffer.byteLength(text);
    for (const { durable, resolve } of batch) if (!durable) resolve();
    if (batch.some(({ durable }) => durable)) await this.#file.datasync();
  }

  async #compact(): Promise<void> {
    const text = this.#snapshot()
      .map((line) => `${JSON.stringify(line)}\n`)
      .join("");
    const draft = `${this.#path}.new`;
    const file = await open(draft, WRITE_FLAGS.truncate, 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
      await renameFile(draft, this.#path);
    } catch (error) {
      await file.close();
      throw error;
    }
    const former = this.#file;
    // The file position is already at the end of the rewritten file.
    this.#file = file;
    this.#bytes = Buffer.byteLength(text);
    this.#compactBytes = this.#bytes;
    await former.close();
    await syncDirectory(dirname(this.#path));
    this.#torn = false;
  }
}

/** Without this sync, power loss could undo the rename. */
async function syncDirectory(path: string): Promise<void> {
  // Windows has no sync of directories; NTFS journals the rename.
  if (process.platform === "win32") return;
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
