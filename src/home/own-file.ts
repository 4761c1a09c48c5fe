import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readFileSync,
  writeFileSync,
  type Stats,
} from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { UnsafePath } from "../errors.js";
import { errnoCode } from "./errno.js";

const { O_APPEND, O_CREAT, O_EXCL, O_RDONLY, O_TRUNC, O_WRONLY } = constants;

/** Flags for opening files; 0 on Windows, which has none of them. */
const flag = (name: "O_DIRECTORY" | "O_NOFOLLOW" | "O_NONBLOCK"): number =>
  name in constants ? constants[name] : 0;
export const O_DIRECTORY = flag("O_DIRECTORY");
export const O_NOFOLLOW = flag("O_NOFOLLOW");
export const O_NONBLOCK = flag("O_NONBLOCK");

/** Flags "w", "a" and "wx" without following a symbolic link, for files that stay open. */
export const WRITE_FLAGS = {
  truncate: O_WRONLY | O_CREAT | O_NOFOLLOW | O_TRUNC,
  append: O_WRONLY | O_CREAT | O_NOFOLLOW | O_APPEND,
  create: O_WRONLY | O_CREAT | O_NOFOLLOW | O_EXCL,
} as const;

/** Files that Holdfast creates for itself are private, whatever the umask. */
const PRIVATE_MODE = 0o600;

/** Non-blocking, because opening a FIFO that no process writes to would wait. */
const READ_FLAGS = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;
const CREATE_FLAGS = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK;

type WriteMode = "truncate" | "append";

/** The text of a file of the state directory. Rejects with UnsafePath for a symbolic link or a file of another user. */
export async function readOwnFile(path: string): Promise<string> {
  await using file = await openOwnFile(path);
  return await file.readFile("utf8");
}

export function readOwnFileSync(path: string): string {
  const file = openNoFollow(path, READ_FLAGS);
  try {
    requireOwnFile(path, fstatSync(file));
    return readFileSync(file, "utf8");
  } finally {
    closeSync(file);
  }
}

export async function openOwnFile(path: string): Promise<FileHandle> {
  if (O_NOFOLLOW === 0) requireNotLink(path);
  const file = await open(path, READ_FLAGS).catch((error: unknown) => {
    throw translateOpenError(path, error);
  });
  try {
    requireOwnFile(path, await file.stat());
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Opens a file of the state directory for writing, never through a symbolic link. */
export function openOwnFileForWriting(path: string, how: WriteMode): number {
  const file = openNoFollow(path, how === "append" ? CREATE_FLAGS | O_APPEND : CREATE_FLAGS);
  try {
    requireOwnFile(path, fstatSync(file));
    // Not opened with O_TRUNC, which would empty a file of another user before its owner is checked.
    if (how === "truncate") ftruncateSync(file);
    return file;
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

export function writeOwnFile(path: string, text: string, how: WriteMode = "truncate"): void {
  const file = openOwnFileForWriting(path, how);
  try {
    writeFileSync(file, text);
  } finally {
    closeSync(file);
  }
}

/** Check for a file that a library opens, because the library follows symbolic links. */
export function requireNotLink(path: string): void {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true)
    throw refusedError(path, "is a symbolic link, which is not followed");
}

function openNoFollow(path: string, flags: number): number {
  if (O_NOFOLLOW === 0) requireNotLink(path);
  try {
    return openSync(path, flags, PRIVATE_MODE);
  } catch (error) {
    throw translateOpenError(path, error);
  }
}

/** open(2): ELOOP is what O_NOFOLLOW answers to a symbolic link; EMLINK on some BSDs. ENXIO: a FIFO without a reader. */
function translateOpenError(path: string, error: unknown): unknown {
  const code = errnoCode(error);
  if (code === "ELOOP" || code === "EMLINK")
    return refusedError(path, "is a symbolic link, which is not followed");
  return code === "ENXIO" ? refusedError(path, "is not a regular file") : error;
}

function requireOwnFile(path: string, found: Stats): void {
  if (!found.isFile()) throw refusedError(path, "is not a regular file");
  const uid = process.geteuid?.();
  if (uid !== undefined && found.uid !== uid)
    throw refusedError(path, `belongs to uid ${found.uid}, and this is uid ${uid}`);
}

function refusedError(path: string, problem: string): UnsafePath {
  return new UnsafePath(path, `${path} ${problem}; it was neither read nor written. Remove it: rm '${path}'`);
}
