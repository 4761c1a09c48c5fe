import { isUtf8 } from "node:buffer";
import { constants } from "node:fs";
import { type FileHandle, lstat, mkdir, open, readlink, realpath, rm } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, sep } from "node:path";
import { defaults } from "../../defaults.js";
import { errnoCode } from "../../home/errno.js";
import { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } from "../../home/own-file.js";
import { renameFile } from "../../home/rename-file.js";
import { INVALID_PARAMS, REQUEST_REFUSED, RESOURCE_NOT_FOUND, RpcFailure } from "../wire/message.js";

/** A path below a root, with all links resolved. The file need not exist. */
export interface ContainedPath {
  readonly path: string;
  readonly root: string;
  readonly directories: readonly string[];
  readonly name: string;
}

/** An open directory. Paths through it stay in it, even if the directory is renamed or replaced. */
interface OpenDirectory extends AsyncDisposable {
  readonly path: (name: string) => string;
}

/** Kernel file systems: their files are not data, and some never end. */
const VIRTUAL_ROOTS = ["/proc", "/sys", "/dev"];
const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL } = constants;

/** Resolves the links in a path. Rejects if it is not below one of the roots. */
export async function resolveContained(path: string, roots: readonly string[]): Promise<ContainedPath> {
  if (!isAbsolute(path) || path.includes("\0"))
    throw new RpcFailure(INVALID_PARAMS, "path must be an absolute path");
  const real = await withFsErrors(path, () => resolveLinks(path));
  for (const each of roots) {
    const root = await realpath(each).catch(() => null);
    if (root === null || !isBelow(root, real) || VIRTUAL_ROOTS.some((virtual) => isBelow(virtual, real)))
      continue;
    const parts = real.slice(root.length).split(sep).filter(Boolean);
    return { path: real, root, directories: parts.slice(0, -1), name: basename(real) };
  }
  throw new RpcFailure(
    REQUEST_REFUSED,
    `${path} is outside the directories that the agent of this session may use`,
  );
}

/**
 * Opens the directory of a path component by component without following links, so a directory that was replaced by a
 * link since `resolveContained` is refused. `make`: create missing directories.
 */
async function openDirectory(
  contained: ContainedPath,
  { make }: { readonly make: boolean },
): Promise<OpenDirectory> {
  if (process.platform !== "linux") return checkDirectory(contained, make);
  let directory = await open(contained.root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  try {
    if ((await readlink(fdPath(directory))) !== contained.root)
      throw new RpcFailure(REQUEST_REFUSED, `${contained.root} was replaced by another directory`);
    for (const part of contained.directories) {
      const next = `${fdPath(directory)}/${part}`;
      if (make) await mkdir(next).catch(ignoreExisting);
      const inner = await open(next, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      await directory.close();
      directory = inner;
    }
  } catch (error) {
    await directory.close();
    throw error;
  }
  const opened = directory;
  return {
    path: (name) => `${fdPath(opened)}/${name}`,
    [Symbol.asyncDispose]: () => opened.close(),
  };
}

/**
 * The same for a system without paths through descriptors: each component is checked to be a directory and not a link.
 * A component that is replaced after its check is not noticed.
 */
async function checkDirectory({ root, directories }: ContainedPath, make: boolean): Promise<OpenDirectory> {
  let path = root;
  for (const part of directories) {
    path = join(path, part);
    if (make) await mkdir(path).catch(ignoreExisting);
    if (!(await lstat(path)).isDirectory())
      throw new RpcFailure(REQUEST_REFUSED, `${path} was replaced by a link or a file`);
  }
  const checked = path;
  return { path: (name) => join(checked, name), [Symbol.asyncDispose]: async () => {} };
}

/** Turns errors of the file system into answers for the agent. */
async function withFsErrors<Result>(path: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const errno = errnoCode(error);
    if (error instanceof RpcFailure || errno === null) throw error;
    if (errno === "ENOENT") throw new RpcFailure(RESOURCE_NOT_FOUND, `${path} does not exist`);
    throw new RpcFailure(REQUEST_REFUSED, `${path} ${ERRNO_TEXTS[errno] ?? `cannot be used (${errno})`}`);
  }
}

const ERRNO_TEXTS: Readonly<Record<string, string>> = {
  EACCES: "is not accessible to the gateway (EACCES)",
  ELOOP: "contains a link that was just created, or a loop of links",
  ENOTDIR: "contains a component that is not a directory",
  ENOSPC: "could not be written: the disk is full",
};

/** realpath(3), also for a missing file: then of the nearest existing directory above it. */
async function resolveLinks(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const name = basename(path);
    if (errnoCode(error) !== "ENOENT" || path === dirname(path) || name === ".." || name === ".") throw error;
    return join(await resolveLinks(dirname(path)), name);
  }
}

function isBelow(directory: string, path: string): boolean {
  return path.startsWith(directory.endsWith(sep) ? directory : `${directory}${sep}`);
}

function fdPath({ fd }: FileHandle): string {
  return `/proc/self/fd/${fd}`;
}

function ignoreExisting(error: unknown): void {
  if (errnoCode(error) !== "EEXIST") throw error;
}

interface LineRange {
  /** The first line, counted from 1. */
  readonly line?: number | null | undefined;
  readonly limit?: number | null | undefined;
}

export function readTextFile(
  contained: ContainedPath,
  { line, limit }: LineRange,
): Promise<{ readonly content: string }> {
  return withFsErrors(contained.path, async () => {
    await using directory = await openDirectory(contained, { make: false });
    await using file = await openFile(contained, directory.path(contained.name), O_RDONLY);
    if (file === null) throw new RpcFailure(RESOURCE_NOT_FOUND, `${contained.path} does not exist`);
    const bytes = await readAll(contained, file);
    if (!isUtf8(bytes))
      throw new RpcFailure(REQUEST_REFUSED, `${contained.path} is not text: it is not UTF-8`);
    return { content: selectLines(bytes.toString(), line ?? 1, limit ?? null) };
  });
}

/** Checked before permission is asked for and before the request is stored. */
export function assertSizeAllowed(contained: ContainedPath, content: string): void {
  if (Buffer.byteLength(content) > defaults.acpFileBytes) throw tooLarge(contained);
}

/**
 * Replaces the file atomically through a temporary file beside it. The temporary file is named by `id`, so a repetition
 * after a crash removes it.
 */
export function writeTextFile(
  contained: ContainedPath,
  content: string,
  id: string,
): Promise<Record<string, never>> {
  return withFsErrors(contained.path, async () => {
    await using directory = await openDirectory(contained, { make: true });
    const target = directory.path(contained.name);
    const temporary = directory.path(`.holdfast-${id}`);
    const mode = await existingMode(contained, target);
    await rm(temporary, { force: true });
    try {
      await using file = await open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode ?? 0o666);
      if (mode !== null) await file.chmod(mode);
      await file.writeFile(content);
      await file.datasync();
      await renameFile(temporary, target);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
    return {};
  });
}

/** The mode of the file, which must be writable; null: it does not exist. */
async function existingMode(contained: ContainedPath, target: string): Promise<number | null> {
  await using file = await openFile(contained, target, O_WRONLY);
  return file === null ? null : (await file.stat()).mode & 0o777;
}

/** Only regular files: checked before opening, because opening a device may have effects, and again after. */
async function openFile(contained: ContainedPath, path: string, flags: number): Promise<FileHandle | null> {
  try {
    if (!(await lstat(path)).isFile()) throw notRegularFile(contained);
    const file = await open(path, flags | O_NOFOLLOW | O_NONBLOCK);
    if ((await file.stat()).isFile()) return file;
    await file.close();
  } catch (error) {
    if (errnoCode(error) === "ENOENT") return null;
    throw error;
  }
  throw notRegularFile(contained);
}

/** Does not rely on the reported size. */
async function readAll(contained: ContainedPath, file: FileHandle): Promise<Buffer> {
  const { size } = await file.stat();
  if (size > defaults.acpFileBytes) throw tooLarge(contained);
  const parts: Buffer[] = [];
  for (let length = 0; ;) {
    const { bytesRead, buffer } = await file.read(Buffer.alloc(Math.max(4_096, size - length + 1)));
    if (bytesRead === 0) return Buffer.concat(parts);
    parts.push(buffer.subarray(0, bytesRead));
    length += bytesRead;
    if (length > defaults.acpFileBytes) throw tooLarge(contained);
  }
}

function selectLines(text: string, line: number, limit: number | null): string {
  const from = lineStart(text, 0, Math.max(0, line - 1));
  return text.slice(from, limit === null ? undefined : lineStart(text, from, limit));
}

/** The start of the line that is `lines` lines after `begin`. */
function lineStart(text: string, begin: number, lines: number): number {
  let at = begin;
  for (let left = lines; left > 0; left--) {
    const end = text.indexOf("\n", at);
    if (end < 0) return text.length;
    at = end + 1;
  }
  return at;
}

function notRegularFile({ path }: ContainedPath): RpcFailure {
  return new RpcFailure(REQUEST_REFUSED, `${path} is not a regular file`);
}

function tooLarge({ path }: ContainedPath): RpcFailure {
  return new RpcFailure(REQUEST_REFUSED, `${path} is too large: ${defaults.acpFileBytes} bytes at most`);
}
