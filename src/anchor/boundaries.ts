import { readdir, rmdir, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { errorCode } from "./error-code.js";
import type { Boundary } from "./host.js";
import { isRunId } from "./run-directory.js";
import { array, nullable, parseShape, record, string } from "./shape.js";
import { readOwnFile } from "../store/own-file.js";

export type RunBoundary = Boundary & { readonly runId: string };

/** What `launcher.json` says of the cgroups below which an instance's runs live. */
interface LauncherFile {
  /** As records name it; null: there are none. */
  readonly cgroup: string | null;
  /** Where it is mounted. */
  readonly cgroupDirectory: string | null;
  /** Where limits of its runs are set beside it, in hierarchies of cgroup v1. */
  readonly limitDirectories: readonly string[];
  /** Of the directory the file was written in. */
  readonly device: string;
  readonly inode: string;
}

const CGROUP2_MAGIC = 0x63677270;

/** The cgroups of an instance's runs; none unless they were provably made for this very directory. */
export async function listBoundaries(
  instanceDir: string,
  instanceId: string,
): Promise<readonly RunBoundary[]> {
  const place = await cgroupPlace(instanceDir, instanceId);
  if (place === null) return [];
  const entries = await readdir(place.directory, { withFileTypes: true }).catch(() => []);
  const found = entries
    .filter((entry) => entry.isDirectory() && isRunId(entry.name))
    .map(async ({ name: runId }): Promise<RunBoundary | null> => {
      const inode = await inodeOf(join(place.directory, runId));
      return inode === null ? null : { runId, path: `${place.cgroup}/${runId}`, inode };
    });
  return (await Promise.all(found)).filter((boundary) => boundary !== null);
}

/** Removes what a launcher that was killed has left of them. False: one is still in use. The kernel removes only empty ones. */
export async function removeBoundaries(instanceDir: string, instanceId: string): Promise<boolean> {
  const place = await cgroupPlace(instanceDir, instanceId);
  if (place === null) return true;
  const { directory } = place;
  const runs = await listBoundaries(instanceDir, instanceId);
  await Promise.allSettled(runs.map(({ runId }) => rmdir(join(directory, runId))));
  if (!(await isRemoved(rmdir(directory)))) return false;
  await Promise.all(place.limitDirectories.map(removeLimits));
  // An anchor that was killed just now may still be on its way out.
  await isRemoved(rmdir(join(dirname(directory), "sup")));
  return isRemoved(rmdir(dirname(directory)));
}

export async function isRemoved(removal: Promise<void>): Promise<boolean> {
  return removal.then(
    () => true,
    (error: unknown) => errorCode(error) === "ENOENT",
  );
}

async function removeLimits(directory: string): Promise<void> {
  const names = await readdir(directory).catch(() => []);
  await Promise.allSettled(names.filter(isRunId).map((runId) => rmdir(join(directory, runId))));
  await rmdir(directory).catch(() => {});
}

interface Place {
  readonly cgroup: string;
  readonly directory: string;
  readonly limitDirectories: readonly string[];
}

async function cgroupPlace(instanceDir: string, instanceId: string): Promise<Place | null> {
  const said = await readLauncherFile(instanceDir);
  if (said === null || said.cgroup === null || said.cgroupDirectory === null) return null;
  const here = await stat(instanceDir, { bigint: true }).catch(() => null);
  // A copied or restored state directory must not claim the original's.
  if (here === null || String(here.dev) !== said.device || String(here.ino) !== said.inode) return null;
  const base = `/holdfast-${instanceId}-${here.dev.toString(16)}-${here.ino.toString(16)}`;
  const tail = `${base}/runs`;
  if (!said.cgroup.endsWith(tail) || !said.cgroupDirectory.endsWith(tail)) return null;
  // Some of it may have been removed before.
  const mounted = await statfs(dirname(dirname(said.cgroupDirectory))).catch(() => null);
  if (mounted?.type !== CGROUP2_MAGIC) return null;
  return {
    cgroup: said.cgroup,
    directory: said.cgroupDirectory,
    limitDirectories: said.limitDirectories.filter((path) => path.endsWith(base)),
  };
}

async function readLauncherFile(instanceDir: string): Promise<LauncherFile | null> {
  const text = await readOwnFile(join(instanceDir, "launcher.json")).catch(() => null);
  if (text === null) return null;
  return parseShape(text, (value) => {
    const facts = record(value);
    return {
      cgroup: nullable(string, facts["cgroup"]),
      cgroupDirectory: nullable(string, facts["cgroupDirectory"]),
      // Older launchers set none.
      limitDirectories: (nullable(array, facts["limitDirectories"]) ?? []).map(string),
      device: string(facts["device"]),
      inode: string(facts["inode"]),
    };
  });
}

async function inodeOf(path: string): Promise<string | null> {
  return stat(path, { bigint: true }).then(
    ({ ino }) => String(ino),
    () => null,
  );
}
