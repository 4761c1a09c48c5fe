import { statSync } from "node:fs";

/** What tells whether a database file is still what it was. */
export interface FileFingerprint {
  readonly inode: bigint;
  readonly size: bigint;
  readonly changedAt: bigint;
  /** Whether a log with something in it lies beside the file. */
  readonly log: boolean;
}

/**
 * Null: there is no such file. Never opened to find out: closing any descriptor of the file would
 * drop the locks that SQLite holds on it in this process (https://sqlite.org/howtocorrupt.html, 2.2).
 */
export function readFingerprint(path: string): FileFingerprint | null {
  const file = statSync(path, { bigint: true, throwIfNoEntry: false });
  if (file === undefined) return null;
  const log = statSync(`${path}-wal`, { bigint: true, throwIfNoEntry: false });
  return {
    inode: file.ino,
    size: file.size,
    changedAt: file.ctimeNs,
    log: log !== undefined && log.size > 0n,
  };
}

export function isSameFingerprint(one: FileFingerprint, other: FileFingerprint | null): boolean {
  return (
    other !== null &&
    one.inode === other.inode &&
    one.size === other.size &&
    one.changedAt === other.changedAt &&
    one.log === other.log
  );
}
