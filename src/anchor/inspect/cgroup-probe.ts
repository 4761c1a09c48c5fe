import { constants } from "node:fs";
import { access, readFile, statfs } from "node:fs/promises";
import { join } from "node:path";
import { AnchorUnusable } from "../../errors.js";
import { asNullable, asObject, asOneOf, asString, parseJson } from "../../text/parse-json.js";
import { runAnchorMode } from "../binary/run-mode.js";

const CGROUP2_MAGIC = 0x63677270;
const MOUNT_POINTS = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/** Whether runs started by this process get their own cgroup, and if not, why. */
export type CgroupProbe =
  | { readonly state: "usable"; readonly path: string }
  | { readonly state: "none" }
  | { readonly state: "not-visible" | "not-writable" | "no-kill"; readonly path: string };

/** Only reads. */
export async function probeCgroup(): Promise<CgroupProbe> {
  const root = await findCgroupRoot();
  if (root === null) return { state: "none" };
  const own = /^0::(.*)$/m.exec(await readFile("/proc/self/cgroup", "utf8"))?.[1] ?? "";
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
  readonly how: "v2" | "v1" | "v2-refused" | "v1-refused" | null;
  readonly where: string | null;
}

/** Only reads. */
export async function probeLimits(anchorPath: string): Promise<readonly LimitProbe[]> {
  const lines = await runAnchorMode(anchorPath, ["limits"], "");
  return lines.map((line) => {
    const probe = parseJson(line, toLimitProbe);
    if (probe !== null) return probe;
    throw new AnchorUnusable(anchorPath, "`anchor limits` gave an invalid answer");
  });
}

function toLimitProbe(value: unknown): LimitProbe {
  const object = asObject(value);
  return {
    controller: asString(object["controller"]),
    how: asNullable((how) => asOneOf(["v2", "v1", "v2-refused", "v1-refused"], how), object["how"]),
    where: asNullable(asString, object["where"]),
  };
}
