import { access, constants, lstat, readlink, stat } from "node:fs/promises";
import { errnoOf } from "../store/errno.js";

/** Where a command is looked up: the run's own environment and directory, not ours. */
export interface Lookup {
  /** The run's PATH; undefined: it has none. */
  readonly path: string | undefined;
  /** Absolute. */
  readonly cwd: string;
}

/** The C library's own list, for a run without PATH: glibc's and musl's, and the anchor may be linked with either. */
const PATHS_WITHOUT_PATH = ["/bin:/usr/bin", "/usr/local/bin:/bin:/usr/bin"];

/** The kernel's PATH_MAX, with the closing NUL, and its limit of symbolic links. */
const PATH_BYTES = 4_096;
const LINKS = 40;

/** A usual lookup takes about fifty steps. The bound is for a PATH made to keep us busy. */
const STEPS = 4_096;

/** `unclear`: the kernel may find something there, but it cannot be said from here what. */
type Found = { readonly path: string } | "absent" | "unclear";

interface Budget {
  steps: number;
}

/**
 * The file that execvp(3) would execute, symbolic links resolved. Null: nothing, or nothing that can be told from here,
 * such as anything by way of /proc, where `self` is whoever looks. What is null must not be executed.
 */
export async function resolveExecutable(name: string, { path, cwd }: Lookup): Promise<string | null> {
  const budget = { steps: STEPS };
  if (name === "") return null;
  if (name.includes("/")) return told(await examine(cwd, name, budget));
  const [first = null, ...others] = await Promise.all(
    (path === undefined ? PATHS_WITHOUT_PATH : [path]).map((each) => search(name, each, cwd, budget)),
  );
  return others.every((other) => other === first) ? first : null;
}

async function search(name: string, path: string, cwd: string, budget: Budget): Promise<string | null> {
  for (const directory of path.split(":")) {
    // An empty entry is the current directory.
    const found = await examine(cwd, `${directory === "" ? "." : directory}/${name}`, budget);
    if (found !== "absent") return told(found);
  }
  return null;
}

function told(found: Found): string | null {
  return typeof found === "string" ? null : found.path;
}

/** As execvp goes on: past what is not there and what may not be executed, but past nothing else. */
async function examine(cwd: string, path: string, budget: Budget): Promise<Found> {
  if (Buffer.byteLength(path) >= PATH_BYTES) return "unclear";
  try {
    const found = await follow(path.startsWith("/") ? path : `${cwd}/${path}`, budget);
    if (typeof found === "string") return found;
    if (!(await stat(found.path)).isFile()) return "absent";
    await access(found.path, constants.X_OK);
    return found;
  } catch (error) {
    return ["ENOENT", "ENOTDIR", "EACCES"].includes(errnoOf(error) ?? "") ? "absent" : "unclear";
  }
}

/** realpath(3), but step by step, so as to see what it leads through. */
async function follow(path: string, budget: Budget): Promise<Found> {
  const left = path.split("/").toReversed();
  let at = "";
  for (let links = 0; ;) {
    const part = left.pop();
    if (part === undefined) return { path: at === "" ? "/" : at };
    budget.steps -= 1;
    if (budget.steps < 0) return "unclear";
    const next = step(at, part);
    if (next === "/proc" || next.startsWith("/proc/")) return "unclear";
    // Asked for as it was written: whether `file/..` or `file/` exist is for the kernel to say.
    if (!(await lstat(`${at}/${part}`)).isSymbolicLink()) {
      at = next;
      continue;
    }
    links += 1;
    if (links > LINKS) return "unclear";
    const target = await readlink(next);
    if (target.startsWith("/")) at = "";
    left.push(...target.split("/").toReversed());
  }
}

function step(at: string, part: string): string {
  if (part === "" || part === ".") return at;
  return part === ".." ? at.slice(0, Math.max(0, at.lastIndexOf("/"))) : `${at}/${part}`;
}
