import { writeSync } from "node:fs";
import { WriteFailed } from "./fd-writer.js";

/** All of it to stdout, at once. A reader that has left early (`| head`) has what it wanted. */
export function print(text: string): void {
  try {
    printOrThrow(text);
  } catch (error) {
    if (!(error instanceof WriteFailed && error.readerGone)) throw error;
  }
}

/** For what cannot be had again: nobody who could not be told is left to guess. */
export function printRequired(text: string, otherwise: string): void {
  try {
    printOrThrow(text);
  } catch (cause) {
    throw new Error(`${otherwise}: ${(cause as Error).message}`, { cause });
  }
}

/** For a command that goes on and on: it ends with its reader. Throws OutletFailed. */
export function printOrThrow(text: string): void {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(1, bytes, at);
    } catch (error) {
      const cause = error as NodeJS.ErrnoException;
      if (cause.code !== "EAGAIN") throw new WriteFailed(1, cause);
      // Somebody who shares the descriptor made it non-blocking; wait a little for the reader.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}

/** What a terminal would act upon, or not show, and JSON may leave as it is. */
const INVISIBLE = /[\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]/gu;

/** The same value, in words that no terminal makes anything else of. */
export function toJson(value: unknown, indent = 0): string {
  const text = JSON.stringify(value, null, indent).replaceAll(INVISIBLE, (character) =>
    Array.from({ length: character.length }, (_, at) => escapeCodeUnit(character.charCodeAt(at))).join(""),
  );
  return `${text}\n`;
}

function escapeCodeUnit(code: number): string {
  return `\\u${code.toString(16).padStart(4, "0")}`;
}
