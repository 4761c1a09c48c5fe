import type { OutputSlice, StreamName } from "./run-file-types.js";
import { Spool } from "./spool.js";

/** Spools kept open. More can be read at the same time; the others are opened again. */
const MAX_OPEN_SPOOLS = 64;

/** An LRU cache of open spools. */
export class SpoolCache implements AsyncDisposable {
  /** In order of use, the least recently used first. */
  readonly #spools = new Map<string, Spool>();
  #disposed = false;

  async read(
    runDir: string,
    stream: StreamName,
    offset: number,
    maxBytes: number,
    into?: Uint8Array,
  ): Promise<OutputSlice> {
    // A follower may still read the last bytes after disposal. Its spool is closed at once, because nothing else would
    // close it.
    if (this.#disposed) {
      await using spool = new Spool(runDir, stream);
      return await spool.read(offset, maxBytes, into);
    }
    const key = cacheKey(runDir, stream);
    const spool = this.#spools.get(key) ?? new Spool(runDir, stream);
    this.#spools.delete(key);
    this.#spools.set(key, spool);
    const [slice] = await Promise.all([spool.read(offset, maxBytes, into), this.#evictOldest()]);
    return slice;
  }

  /** Closes the spools of a run before its directory is removed. */
  async evict(runDir: string): Promise<void> {
    await Promise.all(["stdout", "stderr"].map((stream) => this.#close(cacheKey(runDir, stream))));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    await Promise.all([...this.#spools.keys()].map((key) => this.#close(key)));
  }

  async #evictOldest(): Promise<void> {
    if (this.#spools.size <= MAX_OPEN_SPOOLS) return;
    const [oldest] = this.#spools.keys();
    if (oldest !== undefined) await this.#close(oldest);
  }

  async #close(key: string): Promise<void> {
    const spool = this.#spools.get(key);
    this.#spools.delete(key);
    await spool?.[Symbol.asyncDispose]();
  }
}

function cacheKey(runDir: string, stream: string): string {
  return `${runDir}/${stream}`;
}
