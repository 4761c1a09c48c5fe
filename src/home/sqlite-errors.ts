import { StateUnusable } from "../errors.js";

/** Primary result codes, https://sqlite.org/rescode.html */
const SQLITE_BUSY = 5;
const SQLITE_READONLY = 8;
const SQLITE_IOERR = 10;
const SQLITE_CORRUPT = 11;
const SQLITE_FULL = 13;
const SQLITE_CANTOPEN = 14;
const SQLITE_PROTOCOL = 15;
const SQLITE_NOTADB = 26;

const CONSEQUENCE =
  "Nothing was recorded and no new run is started; running ones continue and can still be stopped.";

function readOnlyMessage(path: string): string {
  return `${path} cannot be written: it, its directory or its file system is read-only. ${CONSEQUENCE} Make it writable, or set HOLDFAST_HOME to another directory.`;
}

const MESSAGES: Readonly<Record<number, (path: string) => string>> = {
  [SQLITE_BUSY]: (path) => `${path} stayed locked by another process. ${CONSEQUENCE} Try again.`,
  // Lost every race for the locks of the WAL: for a caller the same as a locked file.
  [SQLITE_PROTOCOL]: (path) => `${path} stayed locked by other processes. ${CONSEQUENCE} Try again.`,
  [SQLITE_READONLY]: readOnlyMessage,
  [SQLITE_IOERR]: (path) =>
    `the disk under ${path} reported an error. ${CONSEQUENCE} Check the system's log before relying on this disk.`,
  [SQLITE_CORRUPT]: (path) =>
    `${path} is damaged. ${CONSEQUENCE} It is left as it is: move it away to begin with an empty store.`,
  [SQLITE_NOTADB]: (path) =>
    `${path} is damaged or not a Holdfast store. ${CONSEQUENCE} It is left as it is: move it away to begin with an empty store.`,
  [SQLITE_FULL]: (path) => `no space is left for ${path}. ${CONSEQUENCE} Free some space and try again.`,
  [SQLITE_CANTOPEN]: (path) =>
    `${path} cannot be opened. ${CONSEQUENCE} Check that its directory exists and belongs to you.`,
};

/** The error with a message for the user. Errors of this program (bad SQL) are returned unchanged. */
export function translateSqliteError(error: unknown, path: string): unknown {
  const code = primaryCode(error);
  const sentence = code === null ? undefined : MESSAGES[code];
  return sentence === undefined ? error : new StateUnusable(path, sentence(path), { cause: error });
}

/** The error that SQLite would report at the first write. */
export function readOnlyStoreError(path: string, cause: unknown): StateUnusable {
  return new StateUnusable(path, readOnlyMessage(path), { cause });
}

/** The file itself is damaged; waiting or free space does not help. */
export function isCorruption(error: unknown): boolean {
  const code = primaryCode(error instanceof StateUnusable ? error.cause : error);
  return code === SQLITE_CORRUPT || code === SQLITE_NOTADB;
}

/** Another process holds a lock. Nothing was changed, and a retry may succeed. */
export function isBusy(error: unknown): boolean {
  return primaryCode(error instanceof StateUnusable ? error.cause : error) === SQLITE_BUSY;
}

/** SQLite's own words for a code. The driver's `all()` keeps only these. */
const CODES_BY_MESSAGE: Readonly<Record<string, number>> = {
  "database is locked": SQLITE_BUSY,
  "attempt to write a readonly database": SQLITE_READONLY,
  "disk I/O error": SQLITE_IOERR,
  "database disk image is malformed": SQLITE_CORRUPT,
  "database or disk is full": SQLITE_FULL,
  "unable to open database file": SQLITE_CANTOPEN,
  "locking protocol": SQLITE_PROTOCOL,
  "file is not a database": SQLITE_NOTADB,
};

function primaryCode(error: unknown): number | null {
  if (!(error instanceof Error) || !("code" in error) || error.code !== "ERR_SQLITE_ERROR") return null;
  // The low byte; the rest is SQLite's extended detail, which stays in the cause.
  if ("errcode" in error && typeof error.errcode === "number") return error.errcode & 0xff;
  return CODES_BY_MESSAGE[error.message] ?? null;
}
