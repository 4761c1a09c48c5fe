import { constants } from "node:fs";
import { mkdir, open, readlink, realpath, type FileHandle } from "node:fs/promises";
import { basename, dirname, isAbsolute, join } from "node:path";
import { errnoOf } from "../../home/errno.js";
import { INVALID_PARAMS, RESOURCE_NOT_FOUND, REQUEST_REFUSED, RpcFailure } from "./rpc-failure.js";

/** A file below a root, whether it exists or not: every link on the way has been followed. */
export interface ContainedPath {
  readonly path: string;
  readonly root: string;
  readonly directories: readonly string[];
  readonly name: string;
}

/** A directory that is open, and the way to what is in it: nobody can put another in its place meanwhile. */
export interface OpenDirectory extends AsyncDisposable {
  readonly path: (name: string) => string;
}

/** Not files, though some look like it; some would never come to an end. */
const VIRTUAL_ROOTS = ["/proc", "/sys", "/dev"];
const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = constants;

/** Where a path really leads. Rejects when that is not below one of the roots. */
export async function resolveContained(path: string, roots: readonly string[]): Promise<ContainedPath> {
  if (!isAbsolute(path) || path.includes("\0"))
    throw new RpcFailure(INVALID_PARAMS, "path must be an absolute path");
  const real = await withFsErrors(path, () => resolveLinks(path));
  for (const each of roots) {
    const root = await realpath(each).catch(() => null);
    if (root === null || !isBelow(root, real) || VIRTUAL_ROOTS.some((kernel) => isBelow(kernel, real)))
      continue;
    const parts = real.slice(root.length).split("/").filter(Boolean);
    return { path: real, root, directories: parts.slice(0, -1), name: basename(real) };
  }
  throw new RpcFailure(
    REQUEST_REFUSED,
    `${path} is outside of the directories that this session's agent is offered`,
  );
}

/**
 * The directory of a place, gone into step by step without following a link: what has become one since it was located
 * leads nowhere. `make`: those that are missing, too.
 */
export async function openDirectory(
  contained: ContainedPath,
  { make }: { readonly make: boolean },
): Promise<OpenDirectory> {
  let at = await open(contained.root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  try {
    if ((await readlink(fdPath(at))) !== contained.root)
      throw new RpcFailure(REQUEST_REFUSED, `${contained.root} has become another directory`);
    for (const part of contained.directories) {
      const next = `${fdPath(at)}/${part}`;
      if (make) await mkdir(next).catch(ignoreExisting);
      const inner = await open(next, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      await at.close();
      at = inner;
    }
  } catch (error) {
    await at.close();
    throw error;
  }
  const entered = at;
  return {
    path: (name) => `${fdPath(entered)}/${name}`,
    [Symbol.asyncDispose]: () => entered.close(),
  };
}

/** What the system says, as a sentence for the agent. */
export async function withFsErrors<Result>(path: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const errno = errnoOf(error);
    if (error instanceof RpcFailure || errno === null) throw error;
    if (errno === "ENOENT") throw new RpcFailure(RESOURCE_NOT_FOUND, `${path} is not there`);
    throw new RpcFailure(REQUEST_REFUSED, `${path} ${ERRNO_TEXTS[errno] ?? `cannot be used (${errno})`}`);
  }
}

const ERRNO_TEXTS: Readonly<Record<string, string>> = {
  EACCES: "may not be used by this gateway (EACCES)",
  ELOOP: "leads through a link that has just been made, or in circles",
  ENOTDIR: "leads through something that is no directory",
  ENOSPC: "could not be written: the disk is full",
};

/** realpath(3), also of what is not there yet: then of the nearest directory above that is. */
async function resolveLinks(path: string): Promise<string> {
  try {
    return await realpath(path);
  } catch (error) {
    const name = basename(path);
    if (errnoOf(error) !== "ENOENT" || path === "/" || name === ".." || name === ".") throw error;
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
  if (errnoOf(error) !== "EEXIST") throw error;
}
