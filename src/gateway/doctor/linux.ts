import { access, readFile } from "node:fs/promises";
import { checkAnchor } from "./anchor.js";
import { checkCgroups } from "./cgroups.js";
import { type Check, ok, warn } from "./check-result.js";

/** Checks the features of the kernel and of this environment, which decide the guarantees of runs. */
export async function checkKernel(home: string): Promise<Check[]> {
  const [strength, children] = await Promise.all([checkAnchor(), checkProcessListing()]);
  const level = ({ ok: "unique", warn: "handle", bad: "number" } as const)[strength.state];
  return [strength, children, ...(await checkCgroups(home, level))];
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
