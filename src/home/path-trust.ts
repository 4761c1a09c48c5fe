import { existsSync, lstatSync, readFileSync, readlinkSync, type Stats, statSync } from "node:fs";
import { dirname, isAbsolute, join, resolve, win32 } from "node:path";
import { UnsafePath } from "../errors.js";

const ROOT = 0;
const WRITABLE_BY_GROUP = 0o020;
const WRITABLE_BY_OTHERS = 0o022;
const STICKY = 0o1000;

/** As many as Linux follows: path_resolution(7). */
const MAX_LINKS = 40;

/** Why another user could replace a file or listen on a socket of this user. */
interface PathFault {
  /** The component with the fault. */
  readonly path: string;
  readonly problem: string;
  /** The command that removes the fault. */
  readonly remedy: string;
}

/**
 * The first component of an absolute path that a user other than us or root controls, as StrictModes of sshd_config(5)
 * defines it. Every directory from `/` on must be owned by us or root and not be writable by group or others, except
 * a sticky directory of root, and our own directories for our private group. A symbolic link must be owned by us or root, and its target is checked in its place. A
 * path that ends in a file needs a file with the same owner and mode. Components that do not exist are not judged.
 */
export function findPathFault(path: string): PathFault | null {
  // Windows has neither uid nor mode; see isInProfile.
  const uid = process.geteuid?.();
  if (uid === undefined) return null;
  const judge = createPathCheck(uid);
  let rest = pathComponents(path);
  let current = "/";
  let links = 0;
  const top = judge("/", lstatSync("/"));
  if (top !== null) return top;
  for (;;) {
    const name = rest.shift();
    if (name === undefined) return null;
    if (name === "..") {
      current = dirname(current);
      continue;
    }
    const next = join(current, name);
    const found = lstatOrNull(next);
    if (found === null) return null;
    const fault = judge(next, found);
    if (fault !== null) return fault;
    if (!found.isSymbolicLink()) {
      current = next;
      continue;
    }
    // The kernel refuses the path as well.
    if (++links > MAX_LINKS) return null;
    const target = readlinkSync(next);
    if (isAbsolute(target)) current = "/";
    rest = [...pathComponents(target), ...rest];
  }
}

/**
 * True if a path is in the profile of this user on Windows. There the owner and the mode of a file say nothing; the
 * access control list of a profile, which everything in it inherits, admits its user, administrators and the system.
 */
export function isInProfile(
  path: string,
  env: Readonly<Record<string, string | undefined>> = process.env,
): boolean {
  return [env["USERPROFILE"], env["LOCALAPPDATA"], env["APPDATA"]].some((profile) => {
    if (profile === undefined || profile === "") return false;
    const inner = win32.relative(profile, path);
    return !inner.startsWith("..") && !win32.isAbsolute(inner);
  });
}

/** Throws UnsafePath unless only we and root control the path. `what`: how the path is named in the message. */
export function requireTrustedPath(path: string, what: string): void {
  const fault = findPathFault(resolve(path));
  if (fault === null) return;
  const { path: at, problem, remedy } = fault;
  throw new UnsafePath(
    at,
    `${what} is not safe to use: ${at} ${problem}. ${remedy}. Nothing was sent or started`,
  );
}

/**
 * Throws UnsafePath unless only this user or root can have made the socket. To be called before each connect: a
 * connection does not show which user listens, and sent data cannot be withdrawn. connect(2) reports a missing socket.
 */
export function requireOwnSocket(path: string): void {
  const uid = process.geteuid?.();
  if (uid === undefined) return;
  const full = resolve(path);
  requireTrustedDirectory(dirname(full), uid, `the socket ${path}`);
  const found = lstatOrNull(full);
  if (found === null) return;
  const problem = found.isSymbolicLink()
    ? "is a symbolic link"
    : found.uid === uid
      ? null
      : `belongs to uid ${found.uid}, and this is uid ${uid}`;
  if (problem === null) return;
  throw new UnsafePath(
    path,
    `the socket ${path} ${problem}; another process may listen there. Nothing was sent. Remove it: rm '${path}'. A running gateway then creates its socket again`,
  );
}

/**
 * Directories whose whole path was found to be trusted. Only this user and root can change that, so the path is checked
 * once per process; the directory of a socket itself is checked each time.
 */
const trustedParents = new Set<string>();

/** Enough for the instances in use; beyond that, paths are checked again. */
const MAX_TRUSTED_PARENTS = 64;

function requireTrustedDirectory(path: string, uid: number, what: string): void {
  const parent = dirname(path);
  const found = lstatOrNull(path);
  const plain =
    found?.isDirectory() === true && trustedParents.has(parent) && createPathCheck(uid)(path, found) === null;
  if (plain) return;
  requireTrustedPath(path, what);
  if (trustedParents.size >= MAX_TRUSTED_PARENTS) trustedParents.clear();
  if (found?.isDirectory() === true) trustedParents.add(parent);
}

type PathCheck = (path: string, found: Stats) => PathFault | null;

function createPathCheck(uid: number): PathCheck {
  /** True if a directory of this user is above: below it, unmapped owners are not trusted. */
  let below = false;
  return (path, found) => {
    below ||= found.uid === uid && path !== "/";
    const isTrusted = found.uid === uid || found.uid === ROOT || (!below && isUnmapped(found.uid));
    const mode = (found.mode & 0o7777).toString(8).padStart(4, "0");
    if (!isTrusted)
      return {
        path,
        problem: `belongs to uid ${found.uid} (mode ${mode}), and this is uid ${uid}: that user can replace the files there`,
        // Root gets no chown command: the path is usually in the home of the user who became root, and must stay that user's.
        remedy:
          uid === ROOT
            ? "Run as that user, or use another path"
            : `Have root run \`chown ${found.isSymbolicLink() ? "-h " : ""}${uid} '${path}'\` if it is yours, or use another path`,
      };
    // The mode of a symbolic link has no meaning, and that of a socket or device does not protect content.
    if (!found.isDirectory() && !found.isFile()) return null;
    if ((found.mode & WRITABLE_BY_OTHERS) === 0) return null;
    const rootsOwn = found.uid === ROOT || found.uid !== uid;
    if (found.isDirectory() && rootsOwn && (found.mode & STICKY) !== 0) return null;
    const onlyByGroup = (found.mode & WRITABLE_BY_OTHERS) === WRITABLE_BY_GROUP;
    if (onlyByGroup && found.uid === uid && isPrivateGroup(found.gid, uid)) return null;
    return {
      path,
      problem: `can be written by others (mode ${mode}, owner uid ${found.uid})`,
      remedy:
        found.uid === uid || uid === ROOT
          ? `Run \`chmod go-w '${path}'\``
          : `Have its owner run \`chmod go-w '${path}'\`, or use another path`,
    };
  };
}

/**
 * True if an ordinary user is the only member of a group. Distributions that give each user such a group also let the
 * group write new files (umask 002). Users and groups that are not in the local files, and root's, do not count.
 */
function isPrivateGroup(gid: number, uid: number): boolean {
  if (uid === ROOT) return false;
  try {
    const users = entriesOf("/etc/passwd");
    const owner = users.find(([, , id]) => Number(id) === uid)?.[0];
    const members = entriesOf("/etc/group")
      .filter(([, , id]) => Number(id) === gid)
      .flatMap(([, , , names = ""]) => names.split(",").filter((name) => name !== ""));
    const primary = users.filter(([, , , group]) => Number(group) === gid).map(([name]) => name);
    return primary.includes(owner) && [...members, ...primary].every((name) => name === owner);
  } catch {
    return false;
  }
}

/** Fields of passwd(5) or group(5). */
function entriesOf(file: string): string[][] {
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => line.split(":"));
}

/**
 * In a user namespace every uid without a mapping appears as the overflow uid, the real root among them
 * (user_namespaces(7)). The directories above ours then count as root's; outside of such a namespace that uid is an ordinary user.
 */
function isUnmapped(uid: number): boolean {
  try {
    if (uid !== Number(readFileSync("/proc/sys/kernel/overflowuid", "utf8"))) return false;
    const ranges = readFileSync("/proc/self/uid_map", "utf8")
      .trim()
      .split("\n")
      .map((line) => line.trim().split(/\s+/).map(Number));
    return !ranges.some(([first = 0, , count = 0]) => uid >= first && uid < first + count);
  } catch {
    return false;
  }
}

function pathComponents(path: string): string[] {
  return path.split("/").filter((name) => name !== "" && name !== ".");
}

/** Null: the file does not exist, or cannot be examined and therefore cannot be used. */
function lstatOrNull(path: string): Stats | null {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) ?? null;
  } catch {
    return null;
  }
}

/** Read permission of group or others. */
const READABLE = 0o044;

/** One sentence for each file with a secret that other users can read, in the order they were found. */
const warnings = new Map<string, string>();
let reporter: (message: string) => void = () => {};

/** To be called for a file that holds a secret and was read. */
export function warnIfReadable(path: string): void {
  // Windows has no modes.
  if (process.platform === "win32" || warnings.has(path)) return;
  const file = statSync(path, { throwIfNoEntry: false });
  const mode = file?.isFile() === true ? file.mode : 0;
  if ((mode & READABLE) === 0) return;
  const shown = (mode & 0o777).toString(8).padStart(4, "0");
  const message = `other users can read the secret in ${path} (mode ${shown}). Run \`chmod 600 '${path}'\``;
  warnings.set(path, message);
  reporter(message);
}

/** Sets the reporter, replacing the former one. It gets each message once; messages found before it was set come at once. */
export function onReadableSecret(to: (message: string) => void): void {
  reporter = to;
  for (const message of readableSecrets()) to(message);
}

/** Without files that were removed since. */
export function readableSecrets(): readonly string[] {
  return [...warnings].filter(([path]) => existsSync(path)).map(([, message]) => message);
}
