import { readdir, rmdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { HIDDEN_STATE, type ProcessIdentity } from "../../model/process.js";
import {
  asArray,
  asNullable,
  asObject,
  asOneOf,
  asString,
  asWholeNumber,
  type JsonObject,
} from "../../text/parse-json.js";
import { queryAnchor } from "../one-shot-modes.js";
import type { CgroupRef } from "../run-dir/run-file-types.js";
import { findCgroupRoot, inspectCgroups } from "./cgroups-and-limits.js";
import { inspectProcesses, toIdentity } from "./processes.js";
import { reap } from "./reap.js";
import type { ReapResult } from "./evidence-types.js";

interface ProcessWithoutState {
  readonly identity: ProcessIdentity;
  readonly command: string;
}

/** A live run whose state directory was removed. */
export interface RunWithoutState {
  readonly runId: string;
  readonly instanceId: string;
  /** The removed instance directory. Null if the anchor is gone, so that nothing names the directory. */
  readonly directory: string | null;
  /** Verified by its binary and its command line. Null if it is gone. */
  readonly anchor: ProcessIdentity | null;
  /** The binary of its anchor. */
  readonly anchorPath: string | null;
  readonly cgroup: CgroupRef | null;
  /** All processes except the anchor. */
  readonly processes: readonly ProcessWithoutState[];
  readonly evidence: readonly string[];
  /** Why an operator may not end the run; null if one may. */
  readonly whyNot: string | null;
}

type AnchorOrLauncher = ReturnType<typeof toAnchorOrLauncher>;
type LockHolder = ReturnType<typeof toLockHolder>;
type ScannedCgroup = ReturnType<typeof toScannedCgroup>;

interface SystemScan {
  readonly machinery: readonly AnchorOrLauncher[];
  readonly cgroups: readonly ScannedCgroup[];
}

/**
 * Finds runs whose state directory was removed: a live anchor whose instance directory is gone, as that anchor sees it;
 * or a populated run cgroup that belongs to no instance of `home` and has neither a launcher nor an anchor. Only reads,
 * and needs no state directory. Processes that only have markers in their environment are not included, because any
 * process can set them.
 */
export async function findRunsWithoutState(
  anchorPath: string,
  home: string,
): Promise<readonly RunWithoutState[]> {
  const scan = await scanSystem(anchorPath);
  const local = await localPlaces(home);
  const orphans = scan.machinery
    .filter(({ kind, there }) => kind === "anchor" && there === "no")
    .filter(({ cgroup }) => !local.has(cgroupPlace(cgroup) ?? ""));
  const trees = await inspectProcesses(
    anchorPath,
    orphans.map((each) => each.identity),
  );
  const anchored = new Set<string>();
  const held = orphans.flatMap((anchor, at) => {
    const tree = trees[at];
    if (tree?.matches !== true) return [];
    const own = cgroupOfAnchor(anchor, scan.cgroups);
    if (own !== undefined) anchored.add(own.boundary.path);
    return [{ anchor, own, below: tree.descendants }];
  });
  const left = scan.cgroups
    .filter(({ place, boundary }) => !anchored.has(boundary.path) && !local.has(place))
    .filter(
      ({ boundary }) => !scan.machinery.some((each) => cgroupBase(each.cgroup) === cgroupBase(boundary.path)),
    );
  if (held.length + left.length === 0) return [];
  const supervisors = await queryAnchor(anchorPath, ["supervisors"], "", toLockHolder);
  return [
    ...held.map(({ anchor, own, below }) => runWithAnchor(anchor, own, below, supervisors)),
    ...left.map((cgroup) => runWithoutAnchor(cgroup, supervisors)),
  ];
}

/** Ends the run after verifying its processes again. */
export async function stopRunWithoutState(
  anchorPath: string,
  { runId, anchor, anchorPath: path, cgroup }: RunWithoutState,
  graceMs: number,
): Promise<ReapResult> {
  const anchored = anchor === null || path === null ? null : { identity: anchor, path, runId };
  const result = await reap(anchorPath, { root: null, cgroup, leaseId: null, graceMs, anchor: anchored });
  // With an anchor there is a launcher, which removes the cgroups when it exits.
  if (anchor === null) await removeCgroups(cgroup);
  return result;
}

/** True if the anchor and all listed processes are gone and the cgroup is empty. */
export async function isRunWithoutStateGone(
  anchorPath: string,
  { anchor, processes, cgroup }: RunWithoutState,
): Promise<boolean> {
  const identities = processes.map(({ identity: each }) => each);
  const found = await inspectProcesses(anchorPath, anchor === null ? identities : [anchor, ...identities], {
    brief: true,
  });
  const states = await inspectCgroups(anchorPath, cgroup === null ? [] : [cgroup]);
  return (
    // The identity of a hidden process cannot be read, so the process may still be the listed one.
    found.every(({ alive, matches, state }) => !alive || (!matches && state !== HIDDEN_STATE)) &&
    states.every((state) => state === "empty" || state === "gone")
  );
}

/** Removes the cgroups of an instance without live processes. The kernel removes only empty ones. */
async function removeCgroups(cgroup: CgroupRef | null): Promise<void> {
  const [root, base] = [await findCgroupRoot(), cgroupBase(cgroup?.path ?? null)];
  if (root === null || base === null) return;
  for (const name of ["runs", "sup", "."]) await rmdir(join(root, base, name)).catch(() => undefined);
}

/** Compares names: for a renamed directory, the lock shows the new path and the anchor the old one. */
function findLockHolder(instanceId: string, supervisors: readonly LockHolder[]): LockHolder | undefined {
  return supervisors.find(({ directory }) => basename(directory) === instanceId);
}

function cgroupOfAnchor(
  { runId, cgroup }: AnchorOrLauncher,
  cgroups: readonly ScannedCgroup[],
): ScannedCgroup | undefined {
  return cgroups.find(
    ({ boundary, runId: of }) => of === runId && cgroupBase(boundary.path) === cgroupBase(cgroup),
  );
}

/** `own`: its cgroup. */
function runWithAnchor(
  { identity: anchor, executable, directory, runId }: AnchorOrLauncher,
  own: ScannedCgroup | undefined,
  below: readonly ProcessWithoutState[],
  supervisors: readonly LockHolder[],
): RunWithoutState {
  const instanceId = basename(directory);
  const owner = findLockHolder(instanceId, supervisors);
  const evidence = [`its anchor ${anchor.pid} runs ${executable} for ${directory}, which is gone`];
  if (own !== undefined) evidence.push(...cgroupEvidence(own, instanceId));
  return {
    runId: runId ?? "",
    instanceId,
    directory,
    anchor,
    anchorPath: executable,
    cgroup: own?.boundary ?? null,
    processes: below.map((each) => ({ identity: each.identity, command: each.command })),
    evidence,
    whyNot:
      owner !== undefined
        ? `its supervisor, process ${owner.pid}, is alive and holds its lock`
        : anchor.uniqueId === null
          ? "this kernel has no unique process ids, so its anchor cannot be verified"
          : null,
  };
}

function runWithoutAnchor(cgroup: ScannedCgroup, supervisors: readonly LockHolder[]): RunWithoutState {
  const { runId, boundary, members } = cgroup;
  const instanceId = instanceOf(cgroup.place);
  const owner = findLockHolder(instanceId, supervisors);
  const marked = members.some((each) => each.runId === runId && each.instanceId === instanceId);
  return {
    runId,
    instanceId,
    directory: null,
    anchor: null,
    anchorPath: null,
    cgroup: boundary,
    processes: members.map((each) => ({ identity: each.identity, command: each.command })),
    evidence: cgroupEvidence(cgroup, instanceId),
    whyNot:
      owner !== undefined
        ? `its supervisor, process ${owner.pid}, is alive and holds its lock`
        : marked
          ? null
          : "none of its processes has the markers of the run, and the cgroup alone is not enough evidence",
  };
}

function cgroupEvidence({ runId, boundary, members }: ScannedCgroup, instanceId: string): string[] {
  const marked = members.filter((each) => each.runId === runId && each.instanceId === instanceId);
  return [
    `in its cgroup ${boundary.path}: ${members.length} processes`,
    ...(marked.length === 0
      ? []
      : [`with the markers of the run and its instance: ${marked.length} of them`]),
  ];
}

/** Returns the prefix `…/holdfast-<place>` of a cgroup path. */
function cgroupBase(cgroup: string | null): string | null {
  return /^.*\/holdfast-[^/]+-[0-9a-f]+-[0-9a-f]+(?=\/(?:sup|runs)(?:\/|$))/.exec(cgroup ?? "")?.[0] ?? null;
}

function cgroupPlace(cgroup: string | null): string | null {
  return cgroupBase(cgroup)?.replace(/^.*\/holdfast-/, "") ?? null;
}

function instanceOf(place: string): string {
  return place.replace(/-[0-9a-f]+-[0-9a-f]+$/, "");
}

/** Runs of this state directory are excluded, because they have records. */
async function localPlaces(home: string): Promise<ReadonlySet<string>> {
  const names = await readdir(join(home, "instances")).catch(() => []);
  const places = names.map(async (name) => {
    const found = await stat(join(home, "instances", name), { bigint: true }).catch(() => null);
    return found === null ? [] : [`${name}-${found.dev.toString(16)}-${found.ino.toString(16)}`];
  });
  return new Set((await Promise.all(places)).flat());
}

async function scanSystem(anchorPath: string): Promise<SystemScan> {
  const scan = {
    machinery: [] as AnchorOrLauncher[],
    cgroups: [] as ScannedCgroup[],
  };
  await queryAnchor(anchorPath, ["survey"], "", (value) => {
    const object = asObject(value);
    return object["kind"] === "cgroup"
      ? scan.cgroups.push(toScannedCgroup(object))
      : scan.machinery.push(toAnchorOrLauncher(object));
  });
  return scan;
}

function toLockHolder(value: unknown) {
  const object = asObject(value);
  return { pid: asWholeNumber(object["pid"]), directory: asString(object["directory"]) };
}

function toAnchorOrLauncher(object: JsonObject) {
  return {
    identity: toIdentity(object),
    kind: asOneOf(["anchor", "launcher"], object["kind"]),
    executable: asString(object["executable"]),
    runId: asNullable(asString, object["runId"]),
    cgroup: asNullable(asString, object["cgroup"]),
    directory: asString(object["directory"]),
    there: asOneOf(["yes", "no", "unknown"], object["there"]),
  };
}

function toScannedCgroup(object: JsonObject) {
  return {
    /** `<instanceId>-<device>-<inode>` of the instance directory, with numbers in hex. */
    place: asString(object["place"]),
    runId: asString(object["runId"]),
    boundary: { path: asString(object["path"]), inode: asString(object["inode"]) },
    members: asArray(object["members"]).map((item) => {
      const member = asObject(item);
      return {
        identity: toIdentity(member),
        command: asString(member["command"]),
        runId: asNullable(asString, member["runId"]),
        instanceId: asNullable(asString, member["instanceId"]),
      };
    }),
  };
}
