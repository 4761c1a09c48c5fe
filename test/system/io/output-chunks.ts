import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import type { OutputChunk, Run, Supervisor } from "../../../src/supervisor/api.js";
import type { FollowOptions } from "../../../src/supervisor/check-options.js";
import { bytePattern, hash } from "../../support/byte-pattern.js";

/** A file with `length` bytes of the pattern, for programs to print. */
export async function patternFile({ home }: Supervisor, length: number): Promise<string> {
  const path = join(home, `pattern-${length}`);
  await writeFile(path, bytePattern(length));
  return path;
}

export async function collect(run: Run, options: FollowOptions = {}): Promise<OutputChunk[]> {
  const chunks: OutputChunk[] = [];
  for await (const chunk of run.follow({ streams: ["stdout"], ...options })) chunks.push(chunk);
  return chunks;
}

export interface Stretch {
  readonly start: number;
  readonly end: number;
  readonly hash: string;
}

/** Joins chunks, which must be contiguous. */
export function joined(chunks: readonly OutputChunk[]): Stretch {
  const bytes = Buffer.concat(chunks.map((chunk) => chunk.bytes));
  const start = chunks[0]?.offset ?? 0;
  for (const [at, chunk] of chunks.entries()) {
    const before = chunks[at - 1];
    if (before !== undefined) expect(chunk.offset).toBe(before.offset + before.bytes.length);
  }
  return { start, end: start + bytes.length, hash: hash(bytes) };
}

/** The pattern from `start` to `end`. */
export function stretch(start: number, end: number): Stretch {
  return { start, end, hash: hash(bytePattern(end - start, start)) };
}

/** The chunks in a log. The kill may have cut the last one, which is ignored. */
export async function chunksIn(path: string) {
  const log = await readFile(path).catch(() => Buffer.alloc(0));
  const chunks: { offset: number; bytes: Buffer }[] = [];
  let at = 0;
  while (at + 16 <= log.length) {
    const offset = Number(log.readBigUInt64LE(at));
    const length = Number(log.readBigUInt64LE(at + 8));
    if (at + 16 + length > log.length) break;
    chunks.push({ offset, bytes: log.subarray(at + 16, at + 16 + length) });
    at += 16 + length;
  }
  return { chunks, whole: at };
}
