import { lstatSync, type Stats } from "node:fs";
import { access, constants, lstat, mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, isAbsolute, join, posix, resolve, win32 } from "node:path";
import { StateUnusable, UnsafePath } from "../errors.js";
import { errnoCode } from "./errno.js";
import { requireTrustedPath } from "./path-trust.js";
import { networkFileSystemOf } from "./network-file-system.js";

/** The longest path of a socket below this state directory, in bytes. */
export function longestSocketPath(home: string): number {
  return Buffer.byteLength(`${home}/instances/123456789012/runs/1234567890123456/sock`);
}

/** unix(7): 108 bytes with the final zero; 104 on macOS. Windows has named pipes, not paths. */
export function socketPathLimit(platform: NodeJS.Platform): number {
  if (platform === "win32") return Number.POSITIVE_INFINITY;
  return platform === "darwin" ? 103 : 107;
}

export interface StateDirectory {
  readonly home: string;
  /** The SQLite store, shared by all instances. */
  readonly storePath: string;
  /** One directory per instance: lock, launcher, runs, sockets. */
  readonly instancesPath: string;
}

/** The path of the state directory: `$HOLDFAST_HOME`, or the platform's convention. Reads nothing from disk. */
export function resolveHome(
  env: Readonly<Record<string, string | undefined>> = process.env,
  platform: NodeJS.Platform = process.platform,
): string {
  const chosen = env["HOLDFAST_HOME"];
  if (chosen !== undefined && chosen !== "") return chosen;
  if (platform === "win32") {
    return win32.join(
      env["LOCALAPPDATA"] || win32.join(userHome(env["USERPROFILE"]), "AppData", "Local"),
      "holdfast",
    );
  }
  if (platform === "darwin") return darwinHome(userHome(env["HOME"]));
  const state = env["XDG_STATE_HOME"];
  // The XDG specification says to ignore relative paths.
  if (state !== undefined && posix.isAbsolute(state)) return posix.join(state, "holdfast");
  return posix.join(userHome(env["HOME"]), ".local", "state", "holdfast");
}

/** For a user whose name has more than nine letters, sockets in the usual place would have longer paths than macOS allows. */
function darwinHome(home: string): string {
  const usual = posix.join(home, "Library", "Application Support", "holdfast");
  return longestSocketPath(usual) <= socketPathLimit("darwin") ? usual : posix.join(home, ".holdfast");
}

/** Creates the state directory if it does not exist, and checks that it can hold sockets, locks and the store. */
export async function createStateDirectory(path: string): Promise<StateDirectory> {
  const home = requireAbsolute(path);
  requireShortEnough(home);
  requireTrustedParents(home);
  await makeDirectory(home).catch((error: unknown) => {
    throw creationError(home, error);
  });
  const found = await inspectHome(home);
  if (found === null) throw unusableError(home, "was removed while it was being opened. Try again.");
  await access(home, constants.W_OK | constants.X_OK).catch((error: unknown) => {
    const why =
      errnoCode(error) === "EROFS" ? "is on a read-only file system" : "is not writable for this user";
    throw unusableError(home, `${why}. Make it writable, or set HOLDFAST_HOME to another directory.`, error);
  });
  return found;
}

/**
 * Throws UnsafePath when a user other than this one or root controls the state directory or a directory above it.
 * Nothing of such a directory may be read, and no socket in it connected to. A directory that does not exist passes.
 */
export function requireSafeHome(path: string): void {
  const home = requireAbsolute(path);
  const found = lstatSync(home, { throwIfNoEntry: false });
  if (found !== undefined) requireOurs(home, found);
  requireTrustedParents(home);
}

function requireTrustedParents(home: string): void {
  requireTrustedPath(dirname(home), `the state directory ${home}`);
}

/** Level by level, because Node's recursive mkdir reports ENOENT on a read-only file system. */
async function makeDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const errno = errnoCode(error);
    // An existing directory is checked afterwards.
    if (errno === "EEXIST") return;
    if (errno !== "ENOENT" || path === dirname(path)) throw error;
    await makeDirectory(dirname(path));
    // Only once more: with a dangling link above, this would never end.
    await mkdir(path, { mode: 0o700 }).catch((again: unknown) => {
      if (errnoCode(again) !== "EEXIST") throw again;
    });
  }
}

/** Finds the state directory, also if it is a copy. Creates nothing. Null: there is none. */
export async function findStateDirectoryOrCopy(path: string): Promise<StateDirectory | null> {
  return inspectHome(requireAbsolute(path));
}

async function inspectHome(home: string): Promise<StateDirectory | null> {
  const found = await lstat(home).catch((error: unknown) => {
    if (["ENOENT", "ENOTDIR"].includes(errnoCode(error) ?? "")) return null;
    throw unusableError(
      home,
      "cannot be inspected. Check the permissions of the directories above it.",
      error,
    );
  });
  if (found === null) return null;
  requireOurs(home, found);
  requireTrustedParents(home);
  const network = await networkFileSystemOf(home);
  if (network !== null) {
    throw unusableError(
      home,
      `is on a network file system (${network}), where locks between processes cannot be relied on. Set HOLDFAST_HOME to a directory on a local disk.`,
    );
  }
  return { home, storePath: storePathOf(home), instancesPath: join(home, "instances") };
}

function requireOurs(home: string, found: Stats): void {
  if (found.isSymbolicLink()) {
    throw unsafeError(
      home,
      "is a symbolic link, which another user could redirect. Set HOLDFAST_HOME to the directory it points to.",
    );
  }
  if (!found.isDirectory()) {
    throw unusableError(home, "is not a directory. Move it away, or set HOLDFAST_HOME to another path.");
  }
  // Windows has neither uid nor mode; there the directory is in the user's profile.
  const uid = process.geteuid?.();
  if (uid === undefined) return;
  if (found.uid !== uid) {
    throw unsafeError(
      home,
      `belongs to uid ${found.uid}, and this is uid ${uid}. Run as its owner, or set HOLDFAST_HOME to a directory of your own.`,
    );
  }
  if ((found.mode & 0o022) !== 0) {
    const mode = (found.mode & 0o777).toString(8).padStart(4, "0");
    throw unsafeError(home, `can be written by others (mode ${mode}). Run \`chmod 700 '${home}'\`.`);
  }
}

/** Also removes a slash at the end, which would follow a symbolic link that must be refused. */
function requireAbsolute(path: string): string {
  if (isAbsolute(path)) return resolve(path);
  throw unusableError(
    path,
    "is a relative path and would mean another place in every directory. Set HOLDFAST_HOME to an absolute path.",
  );
}

function requireShortEnough(home: string): void {
  const length = longestSocketPath(home);
  const limit = socketPathLimit(process.platform);
  if (length <= limit) return;
  const most = Buffer.byteLength(home) - (length - limit);
  throw unusableError(
    home,
    `is too long: sockets inside it would have paths of ${length} bytes, and the system allows ${limit}. Set HOLDFAST_HOME to a path of at most ${most} bytes.`,
  );
}

function creationError(home: string, error: unknown): StateUnusable {
  const why =
    errnoCode(error) === "EROFS" ? "the file system is read-only" : (errnoCode(error) ?? String(error));
  return unusableError(
    home,
    `cannot be created (${why}). Make the directory above it writable, or set HOLDFAST_HOME to another path.`,
    error,
  );
}

/** Every refusal happens before anything is recorded or started. */
function unusableError(home: string, sentence: string, cause?: unknown): StateUnusable {
  const options = cause === undefined ? undefined : { cause };
  return new StateUnusable(home, `the state directory ${home} ${sentence} Nothing was started.`, options);
}

function unsafeError(home: string, sentence: string): UnsafePath {
  return new UnsafePath(home, `the state directory ${home} ${sentence} Nothing was started.`);
}

function userHome(fromEnv: string | undefined): string {
  if (fromEnv !== undefined && fromEnv !== "") return fromEnv;
  try {
    return homedir();
  } catch (error) {
    throw new StateUnusable(
      "~",
      "this user has no home directory, so there is no place for the state directory; nothing was started. Set HOLDFAST_HOME to an absolute path.",
      { cause: error },
    );
  }
}

export const gatewaySocketPath = (home: string): string => join(home, "gateway.sock");

export function storePathOf(home: string): string {
  return join(home, "store.sqlite");
}
