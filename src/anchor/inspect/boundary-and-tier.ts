import { type CgroupProbe, probeCgroup } from "./cgroups-and-limits.js";

/**
 * The first part of a tier: how the members of a run are known. `lineage`: by unique parents. `group`: only by process
 * group and session.
 */
type BoundaryKind = "cgroup" | "subreaper" | "job" | "lineage" | "group";

/** The boundary of runs that this process starts. Only reads. */
export async function probeBoundary(
  platform: NodeJS.Platform = process.platform,
  probe: () => Promise<CgroupProbe> = probeCgroup,
): Promise<BoundaryKind> {
  if (platform !== "linux") return boundaryElsewhere(platform);
  return (await probe()).state === "usable" ? "cgroup" : "subreaper";
}

/** On other systems than Linux it depends on the system alone. */
export function boundaryElsewhere(platform: NodeJS.Platform): Exclude<BoundaryKind, "cgroup" | "subreaper"> {
  if (platform === "win32") return "job";
  return platform === "darwin" ? "lineage" : "group";
}

/** Members are known only by the process group, or by ancestry without process handles. */
const WEAK_TIER = /^(?:group\b|subreaper\b.*\+number$)/;

/** True if the members are in a Windows Job Object, which no process can leave. */
export function isJobTier(tier: string): boolean {
  return /^job\b/.test(tier);
}

export function isWeakTier(tier: string): boolean {
  return WEAK_TIER.test(tier);
}
