import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, readlinkSync, realpathSync } from "node:fs";
import { access } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { userInfo } from "node:os";
import { type CgroupProbe, probeCgroup } from "../anchor/inspect/cgroups-and-limits.js";
import { configPath } from "../config/file.js";
import { defaults } from "../defaults.js";

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The decision to start a background gateway in a delegated scope of the user's systemd manager. A login
 * session's cgroup belongs to root, so without a scope the runs of an ordinary user get no cgroups of their own.
 */
type ScopePlan =
  /** The cgroup of the process that starts it is usable, or a scope would not help. */
  | { readonly kind: "not-needed" }
  | { readonly kind: "scope" }
  | { readonly kind: "none"; readonly why: string };

/** `env`: of the gateway. Only reads, and does not ask the manager. */
export async function planScope(
  env: Environment = process.env,
  cgroup: CgroupProbe | null = null,
): Promise<ScopePlan> {
  if (process.platform !== "linux") return { kind: "not-needed" };
  const state = (cgroup ?? (await probeCgroup().catch(() => null)))?.state;
  if (state !== "not-writable" && state !== "not-visible") return { kind: "not-needed" };
  const why = whyNoManager(env) ?? ((await isTurnedOff(env)) ? "gateway.systemd-scope is false" : null);
  return why === null ? { kind: "scope" } : { kind: "none", why };
}

/** An invalid config file is reported by the gateway itself. */
async function isTurnedOff(env: Environment): Promise<boolean> {
  // Loaded only when needed: it takes longer than all the rest.
  const { readSettings } = await import("../config/resolve-settings.js");
  return readSettings({}, env, configPath(env)).then(
    ({ config }) => !config.gateway["systemd-scope"],
    () => false,
  );
}

/** Without asking the manager. Null: it may answer. */
function whyNoManager(env: Environment): string | null {
  const directory = env["XDG_RUNTIME_DIR"] ?? "";
  const reachable =
    (env["DBUS_SESSION_BUS_ADDRESS"] ?? "") !== "" ||
    (directory !== "" && ["systemd/private", "bus"].some((name) => existsSync(join(directory, name))));
  if (!reachable)
    return directory === ""
      ? "no systemd manager of this user is known: XDG_RUNTIME_DIR is not set"
      : `no systemd manager of this user listens in ${directory}`;
  const found = (env["PATH"] ?? "").split(delimiter).some((each) => existsSync(join(each, "systemd-run")));
  return found ? null : "systemd-run is not installed";
}

/**
 * The command that starts these words in a scope of their own. `systemd-run --scope` executes them in its own process, so
 * the pid stays. Without `TasksMax` the manager would limit all runs together.
 */
export function scopeCommand(words: readonly string[]): string[] {
  const unit = `holdfast-gateway-${randomBytes(8).toString("hex")}`;
  return [
    ...["systemd-run", "--user", "--scope", "--quiet", "--collect", `--unit=${unit}`],
    ...[
      "--description=Holdfast gateway and its runs",
      "--property=Delegate=yes",
      "--property=TasksMax=infinity",
    ],
    ...["--", ...words],
  ];
}

/** A process that was started with `scopeCommand`. */
interface StartingProcess {
  readonly pid: number | undefined;
  readonly ended: () => string | null;
}

/** Waits until the process is in its scope and executes Node. Null: it does; otherwise why not. */
export async function awaitScope({ pid, ended }: StartingProcess): Promise<string | null> {
  const until = performance.now() + defaults.scopeMs;
  // Compared by path, because an upgrade of Node replaces the file that this process executes.
  const node = realpathSync(process.execPath);
  for (;;) {
    const how = ended();
    if (how !== null) return how;
    if (pid !== undefined && programOf(pid) === node) return null;
    if (performance.now() > until) return `the systemd manager did not answer within ${defaults.scopeMs} ms`;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

const POLL_MS = 5;

function programOf(pid: number): string | null {
  try {
    return readlinkSync(`/proc/${pid}/exe`);
  } catch {
    return null; // It has ended, and its exit is reported next.
  }
}

export interface UserManager {
  readonly version: string;
  /** The path of its cgroup, below which its scopes are. */
  readonly cgroup: string;
}

/** Null: the user's manager did not answer in time. Changes nothing. */
export function askUserManager(): Promise<UserManager | null> {
  const args = ["--user", "show", "--property=Version", "--property=ControlGroup"];
  const value = (text: string, key: string): string => new RegExp(`^${key}=(.*)$`, "m").exec(text)?.[1] ?? "";
  return new Promise((resolve) => {
    execFile("systemctl", args, { timeout: defaults.scopeMs, killSignal: "SIGKILL" }, (error, stdout) =>
      resolve(
        error === null ? { version: value(stdout, "Version"), cgroup: value(stdout, "ControlGroup") } : null,
      ),
    );
  });
}

/**
 * True if the user's manager, and with it every scope, ends with the last session of the user: lingering is off. See
 * loginctl(1).
 */
export async function endsAtLogout(): Promise<boolean> {
  try {
    await access(join(LINGER_DIRECTORY, userInfo().username));
    return false;
  } catch {
    return true;
  }
}

const LINGER_DIRECTORY = "/var/lib/systemd/linger";

/** True for a cgroup that the user's manager created: it ends with the manager. */
export function isInUserManager(cgroupPath: string): boolean {
  return /\/user@\d+\.service(\/|$)|\/holdfast-gateway-[0-9a-f]{16}\.scope(\/|$)/.test(cgroupPath);
}
