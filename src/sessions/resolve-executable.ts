import { access, constants, lstat, readlink, realpath, stat } from "node:fs/promises";
import { errnoCode } from "../home/errno.js";
import { findProgram } from "../supervisor/spawn/windows-command.js";

/** Where a command is looked up: the run's PATH and directory, not the gateway's. */
interface LookupEnvironment {
  /** The run's PATH; undefined: it has none. */
  readonly path: string | undefined;
  /** Absolute. */
  readonly cwd: string;
}

/** The default PATH of glibc and of musl: the anchor may be linked with either. */
const DEFAULT_PATHS = ["/bin:/usr/bin", "/usr/local/bin:/bin:/usr/bin"];

/** The kernel's PATH_MAX, with the final NUL, and its limit of symbolic links. */
const MAX_PATH_BYTES = 4_096;
const MAX_LINKS = 40;

/** A usual lookup takes about fifty steps. The limit guards against a hostile PATH. */
const MAX_STEPS = 4_096;

/** A program as rules identify it. */
export interface LocatedExecutable {
  /**
   * The directory entry: its directory with symbolic links resolved, its own name as it is. The name is part of what a
   * program is: a file with several names (busybox, shell scripts that read $0) is several programs.
   */
  readonly entry: string;
  /** The file that the entry leads to, after all symbolic links. */
  readonly file: string;
}

/** `unclear`: the kernel may find a file that cannot be determined from here. */
type SearchResult = LocatedExecutable | "absent" | "unclear";

interface StepBudget {
  steps: number;
}

/**
 * The file that execvp(3) would execute, with symbolic links resolved. Null: there is none, or it cannot be determined
 * from here, such as a path through /proc, where `self` depends on the process. Then the command must not be executed.
 */
export async function resolveExecutable(name: string, lookup: LookupEnvironment): Promise<string | null> {
  return (await locateExecutable(name, lookup))?.file ?? null;
}

/** The same, with the directory entry by which it was found. */
export async function locateExecutable(
  name: string,
  { path, cwd }: LookupEnvironment,
): Promise<LocatedExecutable | null> {
  if (process.platform === "win32") return locateOnWindows(name, path, cwd);
  const budget = { steps: MAX_STEPS };
  if (name === "") return null;
  if (name.includes("/")) return locatedOrNull(await examineCandidate(cwd, name, budget));
  const [first = null, ...others] = await Promise.all(
    (path === undefined ? DEFAULT_PATHS : [path]).map((each) => search(name, each, cwd, budget)),
  );
  return others.every((other) => other?.entry === first?.entry) ? first : null;
}

/**
 * The program of this name on the operator's PATH. The current directory is not used: entries of PATH that are not
 * absolute are skipped.
 */
export async function locateOnPath(
  name: string,
  path: string | undefined,
): Promise<LocatedExecutable | null> {
  if (process.platform === "win32") return locateOnWindows(name, path, process.cwd());
  const absolute = path?.split(":").filter((directory) => directory.startsWith("/"));
  if (name.includes("/") || absolute?.length === 0) return null;
  return locateExecutable(name, { path: absolute?.join(":"), cwd: "/" });
}

async function locateOnWindows(
  name: string,
  path: string | undefined,
  cwd: string,
): Promise<LocatedExecutable | null> {
  const entry = findProgram(name, { env: { PATHEXT: process.env["PATHEXT"], PATH: path }, cwd });
  if (entry === null) return null;
  return realpath(entry).then(
    (file) => ({ entry, file }),
    () => null,
  );
}

/** A directory with its symbolic links resolved; null: there is none, or it cannot be read. */
export async function resolveDirectory(path: string): Promise<string | null> {
  try {
    const found = await resolveLinks(path, { steps: MAX_STEPS });
    return typeof found === "string" ? null : found.path;
  } catch {
    return null;
  }
}

async function search(
  name: string,
  path: string,
  cwd: string,
  budget: StepBudget,
): Promise<LocatedExecutable | null> {
  for (const directory of path.split(":")) {
    // An empty entry is the current directory.
    const found = await examineCandidate(cwd, `${directory === "" ? "." : directory}/${name}`, budget);
    if (found !== "absent") return locatedOrNull(found);
  }
  return null;
}

function locatedOrNull(found: SearchResult): LocatedExecutable | null {
  return typeof found === "string" ? null : found;
}

/** Like execvp, skips only missing files and files that may not be executed. */
async function examineCandidate(cwd: string, path: string, budget: StepBudget): Promise<SearchResult> {
  if (Buffer.byteLength(path) >= MAX_PATH_BYTES) return "unclear";
  try {
    const absolute = path.startsWith("/") ? path : `${cwd}/${path}`;
    const at = absolute.lastIndexOf("/");
    const directory = await resolveLinks(absolute.slice(0, at), budget);
    if (directory === "unclear") return directory;
    const entry = `${directory.path === "/" ? "" : directory.path}/${absolute.slice(at + 1)}`;
    const file = (await lstat(entry)).isSymbolicLink() ? await resolveLinks(entry, budget) : { path: entry };
    if (file === "unclear") return file;
    if (!(await stat(file.path)).isFile()) return "absent";
    await access(file.path, constants.X_OK);
    return { entry, file: file.path };
  } catch (error) {
    return ["ENOENT", "ENOTDIR", "EACCES"].includes(errnoCode(error) ?? "") ? "absent" : "unclear";
  }
}

/** realpath(3), step by step, to detect a path through /proc. */
async function resolveLinks(
  path: string,
  budget: StepBudget,
): Promise<{ readonly path: string } | "unclear"> {
  const left = path.split("/").toReversed();
  let at = "";
  for (let links = 0; ;) {
    const part = left.pop();
    if (part === undefined) return { path: at === "" ? "/" : at };
    budget.steps -= 1;
    if (budget.steps < 0) return "unclear";
    const next = appendPart(at, part);
    if (next === "/proc" || next.startsWith("/proc/")) return "unclear";
    // The path as written: the kernel decides whether `file/..` or `file/` exist.
    if (!(await lstat(`${at}/${part}`)).isSymbolicLink()) {
      at = next;
      continue;
    }
    links += 1;
    if (links > MAX_LINKS) return "unclear";
    const target = await readlink(next);
    if (target.startsWith("/")) at = "";
    left.push(...target.split("/").toReversed());
  }
}

function appendPart(at: string, part: string): string {
  if (part === "" || part === ".") return at;
  return part === ".." ? at.slice(0, Math.max(0, at.lastIndexOf("/"))) : `${at}/${part}`;
}
