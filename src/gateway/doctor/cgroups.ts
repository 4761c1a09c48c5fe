import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { findAnchorBinary } from "../../anchor/binary.js";
import {
  type CgroupProbe,
  findCgroupRoot,
  type LimitProbe,
  probeCgroup,
  probeLimits,
} from "../../anchor/inspect/cgroups-and-limits.js";
import { DELEGATION_HINT } from "../../anchor/protocol/errors.js";
import { readGatewayId, readLiveLauncher, readLiveProcess } from "../gateway-files.js";
import {
  askUserManager,
  endsAtLogout,
  isInUserManager,
  planScope,
  type UserManager,
} from "../systemd-scope.js";
import { errorMessage } from "../../home/errno.js";
import { bad, type Check, ok, warn } from "./check-result.js";

/** Where the runs of the gateway get their cgroups. */
type RunsPlace =
  /** No gateway runs: it would start in our cgroup. */
  | { readonly kind: "here"; readonly probe: CgroupProbe; readonly noScope: string | null }
  /** No gateway runs: it would start in a scope of this manager. */
  | { readonly kind: "new-scope"; readonly probe: CgroupProbe; readonly manager: UserManager }
  /** Where its launcher is, or the gateway itself if it has none yet. */
  | { readonly kind: "running"; readonly probe: CgroupProbe; readonly noScope: string | null };

/** Checks the cgroups, the limits and the tier of runs. `level`: how strong identities of processes are. */
export async function checkCgroups(home: string, level: "unique" | "handle" | "number"): Promise<Check[]> {
  const own = await probeCgroup();
  const place = await findRunsPlace(home, own);
  const cgroup = checkPlace(place);
  const tierOf = (usable: boolean): string => `${usable ? "cgroup" : "subreaper"}+launcher+${level}`;
  const usable = cgroup.state === "ok";
  const reason = usable ? "" : `: ${cgroup.detail}`;
  const tier =
    usable === (own.state === "usable")
      ? `runs started here get ${tierOf(usable)}${reason}`
      : `runs of the gateway get ${tierOf(usable)}${reason}; with --in-process, or started by a program with the library, they get ${tierOf(!usable)} here: ${describeProbe(own)}`;
  return [cgroup, ...(await checkLogout(place)), await checkRunLimits(place, cgroup, own), ok("tier", tier)];
}

async function findRunsPlace(home: string, own: CgroupProbe): Promise<RunsPlace> {
  const plan = await planScope(process.env, own);
  const manager = plan.kind === "scope" ? await askUserManager() : null;
  const unanswered = plan.kind === "scope" && manager === null;
  const silent = unanswered ? "the systemd manager of this user does not answer" : null;
  const noScope = plan.kind === "none" ? plan.why : silent;
  const pid = await findRunningPid(home);
  const probe = pid === null ? null : await probeCgroup(pid).catch(() => null);
  if (probe !== null) return { kind: "running", probe, noScope };
  return manager === null
    ? { kind: "here", probe: own, noScope }
    : { kind: "new-scope", probe: own, manager };
}

async function findRunningPid(home: string): Promise<number | null> {
  const id = readGatewayId(home);
  if (id === null) return null;
  return ((await readLiveLauncher(home, id)) ?? (await readLiveProcess(home, id)))?.pid ?? null;
}

function checkPlace(place: RunsPlace): Check {
  const name = "cgroup";
  const { probe } = place;
  const detail = describeProbe(probe);
  switch (place.kind) {
    case "new-scope":
      return ok(
        name,
        `${detail}, so the gateway starts in a delegated scope of the user's manager (systemd ${place.manager.version}), where every run gets its own`,
      );
    case "running":
    case "here":
      if (probe.state === "usable") return ok(name, `${detail}: every run gets its own`);
      if (place.noScope !== null) return warn(name, `${detail}; no scope: ${place.noScope}`, remedyOf(probe));
      return place.kind === "running" && probe.state === "not-writable"
        ? warn(
            name,
            `the gateway was started without a scope: ${detail}`,
            "holdfast gateway restart, when none of its runs are left",
          )
        : warn(name, detail, remedyOf(probe));
  }
}

function describeProbe(probe: CgroupProbe): string {
  switch (probe.state) {
    case "usable":
      return `${probe.path} is writable`;
    case "none":
      return "no cgroup v2 is mounted; runs are bounded by ancestry alone";
    case "not-visible":
      return `this process's cgroup ${probe.path} is not visible here`;
    case "not-writable":
      return `${probe.path} cannot be written`;
    case "no-kill":
      return "the kernel has no cgroup.kill";
  }
}

function remedyOf({ state }: CgroupProbe): string | null {
  switch (state) {
    case "usable":
      return null;
    case "none":
      return "boot with systemd.unified_cgroup_hierarchy=1, or mount cgroup2 at /sys/fs/cgroup";
    case "not-visible":
      return "run in the cgroup namespace that the mount belongs to";
    case "not-writable":
      return DELEGATION_HINT;
    case "no-kill":
      return "Linux 5.14 or newer";
  }
}

/** A cgroup of the user's manager ends with the manager. */
async function checkLogout({ kind, probe }: RunsPlace): Promise<Check[]> {
  const inManager = kind === "new-scope" || (probe.state === "usable" && isInUserManager(probe.path));
  if (!inManager) return [];
  return [
    (await endsAtLogout())
      ? warn(
          "logout",
          "lingering is off: the user's manager ends with the last session, and with it the gateway and all its runs",
          "loginctl enable-linger",
        )
      : ok("logout", "lingering is on: the gateway and its runs continue after the last session"),
  ];
}

const CONTROLLERS = ["memory", "pids", "cpu"];

/** Which of --memory, --pids and --cpus a run can have. */
async function checkRunLimits(place: RunsPlace, cgroup: Check, own: CgroupProbe): Promise<Check> {
  const name = "run limits";
  if (cgroup.state !== "ok")
    return warn(name, "none is possible: a limit needs a cgroup of the run's own", cgroup.remedy);
  try {
    const places =
      own.state === "usable" ? await probeLimits(findAnchorBinary()) : await limitsElsewhere(place);
    const detail = places.map(limitText).join("; ");
    const possible = places.every(({ how }) => how === "v2" || how === "v1");
    if (possible) return ok(name, detail);
    const remedy = own.state === "usable" ? DELEGATION_HINT : MANAGER_CONTROLLERS_HINT;
    return warn(name, detail, remedy);
  } catch (error) {
    return bad(name, errorMessage(error));
  }
}

const MANAGER_CONTROLLERS_HINT =
  "as root: systemctl edit user@.service, with [Service] Delegate=cpu cpuset io memory pids; then log in again";

/** The limits in a delegated cgroup that is not our own: those of its controllers. */
async function limitsElsewhere(place: RunsPlace): Promise<LimitProbe[]> {
  const where =
    place.kind === "new-scope"
      ? join((await findCgroupRoot()) ?? "/", place.manager.cgroup)
      : "path" in place.probe
        ? place.probe.path.replace(/\/(holdfast-[^/]+\/sup|holdfast-gateway)$/, "")
        : "/";
  const offered = (await readFile(join(where, "cgroup.controllers"), "utf8")).trim().split(" ");
  return CONTROLLERS.map((controller) =>
    offered.includes(controller) ? { controller, how: "v2", where } : { controller, how: null, where: null },
  );
}

function limitText({ controller, how, where }: LimitProbe): string {
  switch (how) {
    case "v2":
      return `${controller}: by cgroup v2 in ${where}`;
    case "v1":
      return `${controller}: by cgroup v1 in ${where}`;
    case "job":
      return `${controller}: by the run's Job Object`;
    case "v2-refused":
    case "v1-refused":
      return `${controller}: not possible, ${where} cannot be written`;
    case null:
      return `${controller}: not possible, no cgroup here has the controller`;
  }
}
