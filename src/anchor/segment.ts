import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { errnoCode } from "./error-code.js";

/** A segment is named by the stream and the offset of its first byte. */
const OFFSET_DIGITS = 20;

export function segmentPath(directory: string, stream: string, start: number): string {
  return join(directory, `${stream}.${String(start).padStart(OFFSET_DIGITS, "0")}`);
}

/** Where the segments of a stream begin, ascending. Empty when there are none, or no such directory. */
export async function listSegments(directory: string, stream: string): Promise<readonly number[]> {
  const names = await readdir(directory).catch((error: unknown) => {
    if (errnoCode(error) === "ENOENT") return [];
    throw error;
  });
  const prefix = `${stream}.`;
  return names
    .filter((name) => name.startsWith(prefix))
    .map((name) => name.slice(prefix.length))
    .filter((digits) => digits.length === OFFSET_DIGITS && /^\d+$/.test(digits))
    .map(Number)
    .sort((a, b) => a - b);
}
