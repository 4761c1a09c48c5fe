import { constants } from "node:fs";
import { mkdir, open, readlink, realpath, type FileHandle } from "node:fs/promises";
import { basename, dirname, isAbsolute, join } from "node:path";
import { errnoCode } from "../../home/errno.js";
import { INVALID_PARAMS } from "../wire/message.js";
import { RESOURCE_NOT_FOUND, REQUEST_REFUSED, RpcFailure } from "./rpc-failure.js";

/** A path below a root, with all links resolved. The file need not exist. */
export interface ContainedPath {
  readonly path: string;
  readonly root: string;
  readonly directories: readonly string[];
  readonly name: string;
}

/** An open directory. Paths through it stay in it, even if the directory is renamed or replaced. */
export interface OpenDirectory extends AsyncDisposable {
  readonly path: (name: string) => string;
}

/** Kernel file systems: their files are not data, and some never end. */
const VIRTUAL_ROOTS = ["/proc", "/sys", "/dev"];
const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;

/** Resolves the links in a path. Rejects if it is not below one of the roots. */
export async function resolveContained(path: string, roots: readonly string[]): Promise<ContainedPath> {
  if (!isAbsolute(path) || path.includes("\0"))
    throw new RpcFailure(INVALID_PARAMS, "path must be an absolute path");
  const real = await withFsErrors(path, () => resolveLinks(path));
  for (const each of roots) {
    const root = await realpath(each).catch(() => null);
    if (root === null || !isBelow(root, real) || VIRTUAL_ROOTS.some((virtual) => isBelow(virtual, real)))
      continue;
    const parts = real.slice(root.length).split("/").filter(Boolean);
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
export async function openDirectory(
  contained: ContainedPath,
  { make }: { readonly make: boolean },
): Promise<OpenDirectory> {
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

/** Turns errors of the file system into answers for the agent. */
export async function withFsErrors<Result>(path: string, work: () => Promise<Result>): Promise<Result> {
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
    if (errnoCode(error) !== "ENOENT" || path === "/" || name === ".." || name === ".") throw error;
    return join(await resolveLinks(dirname(path)), name);
  }
}

function isBelow(directory: string, path: string): boolean {
  return path.startsWith(directory.endsWith("/") ? directory : `${directory}/`);
}

function fdPath({ fd }: FileHandle): string {
  return `/proc/self/fd/${fd}`;
}

function ignoreExisting(error: unknown): void {
  if (errnoCode(error) !== "EEXIST") throw error;
}
