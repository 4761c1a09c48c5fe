import { isUtf8 } from "node:buffer";
import { constants } from "node:fs";
import { type FileHandle, lstat, open, rename, rm } from "node:fs/promises";
import { defaults } from "../../defaults.js";
import { errnoCode } from "../../home/errno.js";
import { openDirectory, withFsErrors, type ContainedPath } from "./contained-path.js";
import { RESOURCE_NOT_FOUND, REQUEST_REFUSED, RpcFailure } from "./rpc-failure.js";

const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK } = constants;

export interface LineRange {
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
      await rename(temporary, target);
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
