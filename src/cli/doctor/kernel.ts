import { access, readFile } from "node:fs/promises";
import { findAnchorBinary } from "../../anchor/binary.js";
import { type LimitProbe, probeCgroup, probeLimits } from "../../anchor/inspect/cgroups.js";
import { DELEGATION_HINT } from "../../anchor/protocol/errors.js";
import { errorMessage } from "../../home/errno.js";
import { checkAnchor } from "./anchor.js";
import { bad, type Check, ok, warn } from "./check.js";

/** Checks the features of the kernel and of this environment, which decide the guarantees of runs. */
export async function checkKernel(): Promise<Check[]> {
  const [strength, children, cgroup] = await Promise.all([
    checkAnchor(),
    checkProcessListing(),
    checkCgroup(),
  ]);
  const level = { ok: "unique", warn: "handle", bad: "number" }[strength.state];
  const tier = `${cgroup.state === "ok" ? "cgroup" : "subreaper"}+launcher+${level}`;
  return [
    strength,
    children,
    cgroup,
    await checkRunLimits(cgroup),
    ok("tier", `runs started here get ${tier}`),
  ];
}

async function checkProcessListing(): Promise<Check> {
  const name = "process listing";
  if (hidesOtherUsers(await readFile("/proc/self/mounts", "utf8").catch(() => "")))
    return warn(
      name,
      "/proc is mounted with hidepid: of processes of other users only the pid is known, and they are shown as hidden",
      "mount /proc without hidepid, or with gid= a group of this user",
    );
  const path = `/proc/self/task/${process.pid}/children`;
  return access(path).then(
    () => ok(name, "children can be listed"),
    () =>
      warn(
        name,
        "the kernel has no children files: /proc is scanned instead",
        "a kernel with CONFIG_PROC_CHILDREN",
      ),
  );
}

/** See proc(5): hidepid does not apply to root, nor to the group that the mount names. */
function hidesOtherUsers(mounts: string): boolean {
  const options = mounts
    .split("\n")
    .map((line) => line.split(" "))
    .findLast(([, target, type]) => target === "/proc" && type === "proc")?.[3];
  const option = (name: string): string | undefined =>
    options
      ?.split(",")
      .find((each) => each.startsWith(`${name}=`))
      ?.slice(name.length + 1);
  if (process.getuid?.() === 0 || ["0", "off", undefined].includes(option("hidepid"))) return false;
  return ![process.getgid?.(), ...(process.getgroups?.() ?? [])].includes(
    Number(option("gid") ?? Number.NaN),
  );
}

async function checkCgroup(): Promise<Check> {
  const name = "cgroup";
  const probe = await probeCgroup();
  switch (probe.state) {
    case "usable":
      return ok(name, `${probe.path} is writable: every run gets its own`);
    case "none":
      return warn(
        name,
        "no cgroup v2 is mounted; runs are bounded by ancestry alone",
        "boot with systemd.unified_cgroup_hierarchy=1, or mount cgroup2 at /sys/fs/cgroup",
      );
    case "not-visible":
      return warn(
        name,
        `this process's cgroup ${probe.path} is not visible here`,
        "run in the cgroup namespace that the mount belongs to",
      );
    case "not-writable":
      return warn(name, `${probe.path} cannot be written`, DELEGATION_HINT);
    case "no-kill":
      return warn(name, "the kernel has no cgroup.kill", "Linux 5.14 or newer");
  }
}

/** Which of --memory, --pids and --cpus a run started here can have. */
async function checkRunLimits(cgroup: Check): Promise<Check> {
  const name = "run limits";
  if (cgroup.state !== "ok")
    return warn(name, "none is possible: a limit needs a cgroup of the run's own", cgroup.remedy);
  try {
    const places = await probeLimits(findAnchorBinary());
    const detail = places.map(limitText).join("; ");
    const possible = places.every(({ how }) => how === "v2" || how === "v1");
    return possible ? ok(name, detail) : warn(name, detail, DELEGATION_HINT);
  } catch (error) {
    return bad(name, errorMessage(error));
  }
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

/** A gateway holds one connection and up to four files for each run, a launcher one for each anchor. */
const MIN_OPEN_FILES = 1_024;
const MIN_PROCESSES = 512;

/** Only Linux reports them. */
export async function checkProcessLimits(): Promise<readonly Check[]> {
  return process.platform === "linux" ? [await checkOpenFiles()] : [];
}

async function checkOpenFiles(): Promise<Check> {
  const text = await readFile("/proc/self/limits", "utf8").catch(() => "");
  const soft = (name: string): number => {
    const found = new RegExp(`^${name}\\s+(\\S+)`, "m").exec(text)?.[1];
    return found === undefined || found === "unlimited" ? Infinity : Number(found);
  };
  const files = soft("Max open files");
  const processes = soft("Max processes");
  const numbers = Number(await readFile("/proc/sys/kernel/pid_max", "utf8").catch(() => "0"));
  const detail = `${formatLimit(files)} open files, ${formatLimit(processes)} processes, pids up to ${numbers}`;
  if (files < MIN_OPEN_FILES)
    return warn(
      "limits",
      `${detail}: room for about ${Math.floor(files / 5)} runs`,
      `ulimit -n ${MIN_OPEN_FILES * 8}, or LimitNOFILE= in the unit`,
    );
  if (processes < MIN_PROCESSES)
    return warn("limits", detail, `ulimit -u ${MIN_PROCESSES * 8}, or TasksMax= in the unit`);
  return ok("limits", detail);
}

function formatLimit(limit: number): string {
  return limit === Infinity ? "unlimited" : String(limit);
}
