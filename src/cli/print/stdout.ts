import { writeSync } from "node:fs";
import { WriteFailed } from "./fd-writer.js";

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
