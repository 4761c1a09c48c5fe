import { constants } from "node:fs";
import { access, readFile, statfs } from "node:fs/promises";
import { join } from "node:path";
import { asNullable, asObject, asOneOf, asString } from "../../text/parse-json.js";
import { queryAnchor } from "../one-shot-modes.js";
import type { CgroupRef } from "../run-dir/run-file-types.js";
import type { CgroupState } from "./evidence-types.js";

const CGROUP_STATES = ["populated", "empty", "gone", "unknown"] as const;

/** Longer than any path that the anchor creates or can open. */
const MAX_CGROUP_PATH_BYTES = 1000;

/** Returns the state of each cgroup, in the order of `wanted`. An invalid cgroup is not queried, and unknown. */
export async function inspectCgroups(
  anchorPath: string,
  wanted: readonly CgroupRef[],
): Promise<readonly CgroupState[]> {
  const valid = wanted.filter(isValidCgroup);
  if (valid.length === 0) return wanted.map(() => "unknown");
  const input = valid.map((each) => cgroupQuery("cgroup", each)).join("");
  const answers = (await queryAnchor(anchorPath, ["inspect"], input, toCgroupState, valid.length)).values();
  return wanted.map((cgroup) => (isValidCgroup(cgroup) ? (answers.next().value ?? "unknown") : "unknown"));
}

/** A line of input of `anchor inspect`. */
export function cgroupQuery(query: "cgroup" | "members", { inode, path }: CgroupRef): string {
  return `${query} ${inode} ${path}\n`;
}

export function toCgroupState(value: unknown): CgroupState {
  return asOneOf(CGROUP_STATES, value);
}

/** A job of Windows is treated as a cgroup: its name is the path. */
export function isValidCgroup({ path, inode }: CgroupRef): boolean {
  return (
    /^\d{1,20}$/.test(inode) &&
    /^(?:\/|Global\\)[^\0\n]*$/.test(path) &&
    Buffer.byteLength(path) <= MAX_CGROUP_PATH_BYTES
  );
}

const CGROUP2_MAGIC = 0x63677270;
const MOUNT_POINTS = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/** States whether runs started by a process get their own cgroup, and if not, why. */
export type CgroupProbe =
  | { readonly state: "usable"; readonly path: string }
  | { readonly state: "none" }
  | { readonly state: "not-visible" | "not-writable" | "no-kill"; readonly path: string };

/** `pid`: a process of this user. Only reads. */
export async function probeCgroup(pid: number | "self" = "self"): Promise<CgroupProbe> {
  const root = await findCgroupRoot();
  if (root === null) return { state: "none" };
  const own = /^0::(.*)$/m.exec(await readFile(`/proc/${pid}/cgroup`, "utf8"))?.[1] ?? "";
  const path = own === "/" ? root : join(root, own);
  if (own.startsWith("/..")) return { state: "not-visible", path: own };
  const writable = await Promise.all(
    [path, join(path, "cgroup.procs")].map((each) => isAccessible(each, constants.W_OK)),
  );
  if (!writable.every(Boolean)) return { state: "not-writable", path };
  // The root cgroup has no `cgroup.kill`, but its children do.
  const kill = own === "/" || own === "" || (await isAccessible(join(path, "cgroup.kill"), constants.F_OK));
  return { state: kill ? "usable" : "no-kill", path };
}

function isAccessible(path: string, mode: number): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}

/** Returns the mount point of cgroup v2, or null. */
export async function findCgroupRoot(): Promise<string | null> {
  for (const path of MOUNT_POINTS) {
    const found = await statfs(path).catch(() => null);
    if (found?.type === CGROUP2_MAGIC) return path;
  }
  return null;
}

/** How and where a limit would be set by this process; `how` is null if no cgroup here has the controller. */
export interface LimitProbe {
  readonly controller: string;
  readonly how: "v2" | "v1" | "job" | "v2-refused" | "v1-refused" | null;
  readonly where: string | null;
}

/** Only reads. */
export async function probeLimits(anchorPath: string): Promise<readonly LimitProbe[]> {
  return queryAnchor(anchorPath, ["limits"], "", toLimitProbe);
}

function toLimitProbe(value: unknown): LimitProbe {
  const object = asObject(value);
  return {
    controller: asString(object["controller"]),
    how: asNullable((how) => asOneOf(["v2", "v1", "job", "v2-refused", "v1-refused"], how), object["how"]),
    where: asNullable(asString, object["where"]),
  };
}
