import { readdir, rmdir, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { AnchorUnusable } from "../errors.js";
import type { ProcessIdentity } from "../store/run-record.js";
import { askAnchor } from "./ask.js";
import type { Boundary, ReapResult } from "./host.js";
import { identity, inspect } from "./inspect.js";
import { inspectBoundaries } from "./inspect-boundaries.js";
import { findRoot } from "./look-at-cgroup.js";
import { reap } from "./reap.js";
import { HIDDEN } from "./seen.js";
import { array, type Facts, nullable, oneOf, parseShape, record, string, whole } from "./shape.js";

export interface ProcessWithoutState {
  readonly identity: ProcessIdentity;
  readonly command: string;
}

/** A live run whose state directory was removed. */
export interface RunWithoutState {
  readonly runId: string;
  readonly instanceId: string;
  /** The removed instance directory. Null: its anchor is gone, and nothing says where the directory was. */
  readonly directory: string | null;
  /** Verified by its binary and its command line. Null: it is gone. */
  readonly anchor: ProcessIdentity | null;
  /** The file of its anchor. */
  readonly anchorPath: string | null;
  readonly cgroup: Boundary | null;
  /** Without the anchor. */
  readonly processes: readonly ProcessWithoutState[];
  readonly evidence: readonly string[];
  /** Why it may not be ended; null: it may, by an operator. */
  readonly whyNot: string | null;
}

interface Machinery {
  readonly identity: ProcessIdentity;
  readonly kind: "anchor" | "launcher";
  readonly executable: string;
  readonly runId: string | null;
  readonly cgroup: string | null;
  readonly directory: string;
  readonly there: "yes" | "no" | "unknown";
}

interface Supervisor {
  readonly pid: number;
  readonly directory: string;
}

interface RunCgroup {
  /** `<instanceId>-<device>-<inode>`, the numbers in hex: of the instance's directory. */
  readonly place: string;
  readonly runId: string;
  readonly boundary: Boundary;
  readonly members: readonly (ProcessWithoutState & {
    readonly runId: string | null;
    readonly instanceId: string | null;
  })[];
}

interface Survey {
  readonly machinery: readonly Machinery[];
  readonly supervisors: readonly Supervisor[];
  readonly cgroups: readonly RunCgroup[];
}

const KINDS = ["anchor", "launcher"] as const;
const THERE = ["yes", "no", "unknown"] as const;

/**
 * Runs whose state directory was removed: a living anchor whose instance directory is gone, as that anchor sees it; or
 * a cgroup of a run with processes in it, of no instance of `home`, for which neither a launcher nor an anchor lives.
 * Looks only, and needs no state directory. Processes that only carry markers are claims, and are not in it.
 */
export async function findRunsWithoutState(
  anchorPath: string,
  home: string,
): Promise<readonly RunWithoutState[]> {
  const survey = await lookAround(anchorPath);
  const local = await placesIn(home);
  const orphans = survey.machinery
    .filter(({ kind, there }) => kind === "anchor" && there === "no")
    .filter(({ cgroup }) => !local.has(placeOf(cgroup) ?? ""));
  const trees = await inspect(
    anchorPath,
    orphans.map((each) => each.identity),
  );
  const held = orphans.flatMap((anchor, at) => {
    const tree = trees[at];
    return tree?.matches === true ? [withAnchor(anchor, tree.descendants, survey)] : [];
  });
  const known = new Set(held.flatMap(({ cgroup }) => cgroup?.path ?? []));
  const left = survey.cgroups
    .filter(({ place, boundary }) => !known.has(boundary.path) && !local.has(place))
    .filter(({ boundary }) => !survey.machinery.some((each) => baseOf(each.cgroup) === baseOf(boundary.path)))
    .map((cgroup) => withoutAnchor(cgroup, survey));
  return [...held, ...left];
}

/** End it, verified once more through handles. */
export async function endRunWithoutState(
  anchorPath: string,
  { anchor, anchorPath: path, cgroup }: RunWithoutState,
  graceMs: number,
): Promise<ReapResult> {
  const known = anchor === null || path === null ? null : { identity: anchor, path };
  const result = await reap(anchorPath, { root: null, cgroup, leaseId: null, graceMs, anchor: known });
  // With an anchor there is a launcher, which removes them when it leaves.
  if (anchor === null) await removeCgroups(cgroup);
  return result;
}

/** True if the anchor and all listed processes are gone and the cgroup is empty. */
export async function hasEnded(
  anchorPath: string,
  { anchor, processes, cgroup }: RunWithoutState,
): Promise<boolean> {
  const identities = processes.map(({ identity: each }) => each);
  const found = await inspect(anchorPath, anchor === null ? identities : [anchor, ...identities], {
    brief: true,
  });
  const states = await inspectBoundaries(anchorPath, cgroup === null ? [] : [cgroup]);
  return (
    // The identity of a hidden process cannot be read, so the process may still be the listed one.
    found.every(({ alive, matches, state }) => !alive || (!matches && state !== HIDDEN)) &&
    states.every((state) => state === "empty" || state === "gone")
  );
}

/** The cgroups of an instance of which nothing lives any more. The kernel removes only empty ones. */
async function removeCgroups(cgroup: Boundary | null): Promise<void> {
  const [root, base] = [await findRoot(), baseOf(cgroup?.path ?? null)];
  if (root === null || base === null) return;
  for (const name of ["runs", "sup", "."]) await rmdir(join(root, base, name)).catch(() => undefined);
}

/** By name: of a directory that was renamed, its lock shows the new path and its anchor the old one. */
function ownerOf(instanceId: string, supervisors: readonly Supervisor[]): Supervisor | undefined {
  return supervisors.find(({ directory }) => basename(directory) === instanceId);
}

function withAnchor(
  { identity: anchor, executable, directory, runId, cgroup: seat }: Machinery,
  below: readonly ProcessWithoutState[],
  { supervisors, cgroups }: Survey,
): RunWithoutState {
  const instanceId = basename(directory);
  const own = cgroups.find(
    ({ boundary, runId: of }) => of === runId && baseOf(boundary.path) === baseOf(seat),
  );
  const owner = ownerOf(instanceId, supervisors);
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
        ? `its supervisor, process ${owner.pid}, lives and holds its lock`
        : anchor.uniqueId === null
          ? "this kernel has no unique process ids, so its anchor cannot be verified"
          : null,
  };
}

function withoutAnchor(cgroup: RunCgroup, { supervisors }: Survey): RunWithoutState {
  const { runId, boundary, members } = cgroup;
  const instanceId = instanceOf(cgroup.place);
  const owner = ownerOf(instanceId, supervisors);
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
        ? `its supervisor, process ${owner.pid}, lives and holds its lock`
        : marked
          ? null
          : "none of its processes carries the markers of the run: the cgroup alone is not enough",
  };
}

function cgroupEvidence({ runId, boundary, members }: RunCgroup, instanceId: string): string[] {
  const marked = members.filter((each) => each.runId === runId && each.instanceId === instanceId);
  return [
    `in its cgroup ${boundary.path}: ${members.length} processes`,
    ...(marked.length === 0
      ? []
      : [`with the markers of the run and its instance: ${marked.length} of them`]),
  ];
}

/** `…/holdfast-<place>` of a cgroup below it. */
function baseOf(cgroup: string | null): string | null {
  return /^.*\/holdfast-[^/]+-[0-9a-f]+-[0-9a-f]+(?=\/(?:sup|runs)(?:\/|$))/.exec(cgroup ?? "")?.[0] ?? null;
}

function placeOf(cgroup: string | null): string | null {
  return baseOf(cgroup)?.replace(/^.*\/holdfast-/, "") ?? null;
}

function instanceOf(place: string): string {
  return place.replace(/-[0-9a-f]+-[0-9a-f]+$/, "");
}

/** Runs of this state directory are excluded: they have records. */
async function placesIn(home: string): Promise<ReadonlySet<string>> {
  const names = await readdir(join(home, "instances")).catch(() => []);
  const places = names.map(async (name) => {
    const found = await stat(join(home, "instances", name), { bigint: true }).catch(() => null);
    return found === null ? [] : [`${name}-${found.dev.toString(16)}-${found.ino.toString(16)}`];
  });
  return new Set((await Promise.all(places)).flat());
}

async function lookAround(anchorPath: string): Promise<Survey> {
  const survey = {
    machinery: [] as Machinery[],
    supervisors: [] as Supervisor[],
    cgroups: [] as RunCgroup[],
  };
  for (const line of await askAnchor(anchorPath, ["survey"], "")) {
    const read = parseShape(line, (value) => {
      const facts = record(value);
      const kind = string(facts["kind"]);
      if (kind === "supervisor") return survey.supervisors.push(toSupervisor(facts));
      return kind === "cgroup"
        ? survey.cgroups.push(toCgroup(facts))
        : survey.machinery.push(toMachinery(facts));
    });
    if (read === null)
      throw new AnchorUnusable(
        anchorPath,
        "`anchor survey` did not answer as agreed; nothing was concluded from it",
      );
  }
  return survey;
}

function toSupervisor(facts: Facts): Supervisor {
  return { pid: whole(facts["pid"]), directory: string(facts["directory"]) };
}

function toMachinery(facts: Facts): Machinery {
  return {
    identity: identity(facts),
    kind: oneOf(KINDS, facts["kind"]),
    executable: string(facts["executable"]),
    runId: nullable(string, facts["runId"]),
    cgroup: nullable(string, facts["cgroup"]),
    directory: string(facts["directory"]),
    there: oneOf(THERE, facts["there"]),
  };
}

function toCgroup(facts: Facts): RunCgroup {
  return {
    place: string(facts["place"]),
    runId: string(facts["runId"]),
    boundary: { path: string(facts["path"]), inode: string(facts["inode"]) },
    members: array(facts["members"]).map((item) => {
      const member = record(item);
      return {
        identity: identity(member),
        command: string(member["command"]),
        runId: nullable(string, member["runId"]),
        instanceId: nullable(string, member["instanceId"]),
      };
    }),
  };
}
