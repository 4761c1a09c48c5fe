import { execFileSync } from "node:child_process";
import { appendFile, mkdir, mkdtemp, open, readdir, rm, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { SpoolCache } from "../../../src/anchor/run-dir/spool-cache.js";
import { segmentPath, Spool } from "../../../src/anchor/run-dir/spool.js";

let directory: string;
let spool: Spool;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "holdfast-spool-"));
  spool = new Spool(directory, "stdout");
});

afterEach(async () => {
  await spool[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

function path(start: number): string {
  return segmentPath(directory, "stdout", start);
}

/** Every byte depends on its offset, so that a byte from a wrong position is noticed. */
function pattern(start: number, length: number): Buffer {
  return Buffer.from(
    Array.from({ length }, (_, index) => ((start + index) * 31 + ((start + index) >> 8)) & 0xff),
  );
}

async function put(start: number, length: number): Promise<void> {
  await writeFile(path(start), pattern(start, length));
}

async function readAll(from = 0, maxBytes = 1 << 20): Promise<{ start: number; bytes: Buffer }> {
  const parts: Uint8Array[] = [];
  let start: number | null = null;
  let offset = from;
  for (;;) {
    const slice = await spool.read(offset, maxBytes);
    if (slice.bytes.length === 0) return { start: start ?? offset, bytes: Buffer.concat(parts) };
    start ??= slice.offset;
    parts.push(slice.bytes);
    offset = slice.offset + slice.bytes.length;
  }
}

function exitJson(end: number): string {
  return JSON.stringify({
    ...{ runId: "run_a", executed: true, reason: "exit", actor: "", requestId: "", leader: { code: 0 } },
    ...{ spawnError: null, residue: [], residueCount: 0, killMode: "none", emptiness: "proven" },
    stdout: { start: 0, end, dropped: 0 },
    stderr: { start: 0, end: 0, dropped: 0 },
    ...{ processes: 1, usage: { cpuMs: 1, peakKb: 1 }, durationMs: 1 },
  });
}

describe("a spool", () => {
  test("is read to its end by a reader that has it open after its directory was removed", async () => {
    await put(0, 10);
    expect((await spool.read(0, 10)).bytes).toHaveLength(10);
    await appendFile(path(0), pattern(10, 5));
    await rm(directory, { recursive: true });
    expect((await spool.read(1_000, 1)).bytes).toHaveLength(0);
    const { offset, bytes } = await spool.read(10, 100);
    expect({ offset, bytes: Buffer.from(bytes) }).toEqual({ offset: 10, bytes: pattern(10, 5) });
  });

  test("does not report output as lost that came between the read and the end of the run", async () => {
    await put(0, 10);
    // A FIFO blocks the reader after it found no output and reads the end.
    const exit = join(directory, "exit.json");
    execFileSync("mkfifo", [exit]);
    const reading = spool.read(10, 100);
    const writer = await open(exit, "w");
    await appendFile(path(0), pattern(10, 5));
    await writer.writeFile(exitJson(15));
    await writer.close();
    const { offset, bytes, lost } = await reading;
    expect({ offset, bytes: Buffer.from(bytes), lost: lost ?? 0 }).toEqual({
      offset: 10,
      bytes: pattern(10, 5),
      lost: 0,
    });
  });

  test("that does not exist yet is empty", async () => {
    expect(await spool.read(0, 100)).toEqual({ offset: 0, bytes: new Uint8Array(0) });
    expect((await new Spool(join(directory, "none"), "stdout").read(7, 100)).offset).toBe(7);
  });

  test("is read across its segments", async () => {
    await put(0, 100);
    await put(100, 50);
    await put(150, 25);
    expect(await readAll()).toEqual({ start: 0, bytes: pattern(0, 175) });
    expect(await readAll(0, 7)).toEqual({ start: 0, bytes: pattern(0, 175) });
  });

  test("can be read from any offset", async () => {
    await put(0, 100);
    await put(100, 50);
    for (const from of [0, 1, 99, 100, 101, 149]) {
      expect(await readAll(from)).toEqual({ start: from, bytes: pattern(from, 150 - from) });
    }
  });

  test("is not consumed: two readers at different offsets read the same bytes", async () => {
    for (let start = 0; start < 40_000; start += 1000) await put(start, 1000);
    let [early, late] = [0, 37_000];
    while (late < 40_000) {
      const [first, second] = await Promise.all([spool.read(early, 333), spool.read(late, 333)]);
      expect(Buffer.from(first.bytes)).toEqual(pattern(early, first.bytes.length));
      expect(Buffer.from(second.bytes)).toEqual(pattern(late, second.bytes.length));
      early += first.bytes.length;
      late += second.bytes.length;
    }
    expect(await readAll(0)).toEqual({ start: 0, bytes: pattern(0, 40_000) });
  });

  test("is followed while it grows", async () => {
    await put(0, 10);
    expect((await readAll()).bytes).toEqual(pattern(0, 10));
    expect((await spool.read(10, 100)).bytes).toHaveLength(0);
    await writeFile(path(0), pattern(10, 5), { flag: "a" });
    expect((await readAll(10)).bytes).toEqual(pattern(10, 5));
    await writeFile(path(15), "");
    expect((await spool.read(15, 100)).bytes).toHaveLength(0);
    await put(15, 5);
    expect((await readAll(15)).bytes).toEqual(pattern(15, 5));
  });

  test("starts at the oldest byte kept if an older one is requested", async () => {
    await put(100, 50);
    await put(150, 50);
    expect(await readAll(0)).toEqual({ start: 100, bytes: pattern(100, 100) });
    expect((await spool.read(20, 10)).offset).toBe(100);
  });

  test("has nothing after its end", async () => {
    await put(0, 100);
    expect(await spool.read(500, 10)).toEqual({ offset: 500, bytes: new Uint8Array(0) });
    await put(100, 100);
    expect(await spool.read(500, 10)).toEqual({ offset: 500, bytes: new Uint8Array(0) });
  });

  test("continues at the next segment kept after its own was removed", async () => {
    await put(0, 100);
    await put(100, 100);
    await put(200, 100);
    expect((await spool.read(0, 50)).bytes).toHaveLength(50);
    await unlink(path(0));
    await unlink(path(100));
    // An open segment can be read to its end; removed bytes are skipped, and the offset shows it.
    expect(await spool.read(50, 100)).toEqual({ offset: 50, bytes: pattern(50, 50) });
    expect(await spool.read(100, 1000)).toEqual({ offset: 200, bytes: pattern(200, 100) });
  });

  test("continues after everything was removed and started again later", async () => {
    await put(0, 100);
    expect((await readAll()).bytes).toHaveLength(100);
    await unlink(path(0));
    expect((await spool.read(100, 10)).bytes).toHaveLength(0);
    await put(5000, 10);
    expect(await spool.read(100, 10)).toEqual({ offset: 5000, bytes: pattern(5000, 10) });
  });

  test("never returns a byte from another offset while segments are removed and added", async () => {
    const SIZE = 512;
    const total = 400 * SIZE;
    const writing = (async () => {
      for (let start = 0; start < total; start += SIZE) {
        await writeFile(path(start), pattern(start, 100));
        await writeFile(path(start), pattern(start + 100, SIZE - 100), { flag: "a" });
        if (start >= 3 * SIZE) await unlink(path(start - 3 * SIZE));
      }
    })();
    let done = false;
    void writing.finally(() => {
      done = true;
    });
    let offset = 0;
    for (;;) {
      const last = done;
      const slice = await spool.read(offset, 200);
      expect(slice.offset).toBeGreaterThanOrEqual(offset);
      expect(Buffer.from(slice.bytes)).toEqual(pattern(slice.offset, slice.bytes.length));
      offset = slice.offset + slice.bytes.length;
      if (last && slice.bytes.length === 0) break;
    }
    await writing;
    expect(offset).toBe(total);
  });

  test("ignores files that are not its segments", async () => {
    await put(300, 5);
    await writeFile(join(directory, "stdout.12"), "x");
    await writeFile(join(directory, `stdout.${"0".repeat(19)}x`), "x");
    await writeFile(join(directory, `stderr.${"0".repeat(20)}`), "x");
    expect((await spool.read(0, 100)).offset).toBe(300);
  });

  test("reads large blocks of a fast stream, but no more than requested", async () => {
    await put(0, 3 << 20);
    const sizes: number[] = [];
    for (let offset = 0; offset < 3 << 20;) {
      const { bytes } = await spool.read(offset, 1 << 20);
      sizes.push(bytes.length);
      offset += bytes.length;
    }
    expect(Math.max(...sizes)).toBe(1 << 20);
    expect((await spool.read(0, 10)).bytes).toHaveLength(10);
    expect((await spool.read(0, 0)).bytes).toHaveLength(0);
  });
});

describe("a cache of spools", () => {
  async function openFiles(): Promise<number> {
    return (await readdir("/proc/self/fd")).length;
  }

  test("keeps a bounded number of descriptors and none after it is closed", async () => {
    const shelf = new SpoolCache();
    const before = await openFiles();
    for (let run = 0; run < 200; run += 1) {
      const runDir = join(directory, `run_${run}`);
      await mkdir(runDir);
      await writeFile(segmentPath(runDir, "stdout", 0), String(run));
    }
    const reads = Array.from({ length: 200 }, (_, run) =>
      shelf.read(join(directory, `run_${run}`), "stdout", 0, 100),
    );
    const slices = await Promise.all(reads);
    expect(slices.map(({ bytes }) => Buffer.from(bytes).toString())).toEqual(
      Array.from({ length: 200 }, (_, run) => String(run)),
    );
    expect(await openFiles()).toBeLessThanOrEqual(before + 64);
    await shelf[Symbol.asyncDispose]();
    expect(await openFiles()).toBe(before);
  });

  test("closes the spools of an evicted run", async () => {
    const shelf = new SpoolCache();
    const before = await openFiles();
    const runDir = join(directory, "run_a");
    await mkdir(runDir);
    await writeFile(segmentPath(runDir, "stderr", 0), "hi");
    expect((await shelf.read(runDir, "stderr", 0, 10)).bytes).toHaveLength(2);
    await shelf.evict(runDir);
    expect(await openFiles()).toBe(before);
  });

  test("serves a late reader and keeps nothing open", async () => {
    const shelf = new SpoolCache();
    const before = await openFiles();
    await put(0, 10);
    await shelf[Symbol.asyncDispose]();
    expect((await shelf.read(directory, "stdout", 0, 100)).bytes).toHaveLength(10);
    expect(await openFiles()).toBe(before);
  });
});
