import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { findAnchorBinary } from "../../../src/anchor/binary/find.js";
import { probeLimits } from "../../../src/anchor/inspect/cgroup-probe.js";

/** Null if the user of the suite can set every limit. Otherwise the reason to skip. */
export const whyNoLimits: string | null = await (async () => {
  const places = await probeLimits(findAnchorBinary());
  const missing = places.filter(({ how }) => how !== "v1").map(({ controller }) => controller);
  return missing.length === 0 ? null : `no writable cgroup v1 hierarchy here for ${missing.join(", ")}`;
})();

/** The v1 directories of a state directory's runs that exist now. */
export function limitCgroups(home: string, instanceId: string, runId: string): string[] {
  const file = join(home, "instances", instanceId, "launcher.json");
  const said = JSON.parse(readFileSync(file, "utf8")) as { readonly limitDirectories: readonly string[] };
  return said.limitDirectories.map((path) => join(path, runId)).filter((path) => existsSync(path));
}

/** The cgroup of a process in the hierarchy of a v1 controller. */
export function cgroupOfProcess(pid: number, controller: string): string {
  const text = readFileSync(`/proc/${pid}/cgroup`, "utf8");
  return new RegExp(`^\\d+:(?:\\w+,)*${controller}(?:,\\w+)*:(.*)$`, "m").exec(text)?.[1] ?? "";
}
