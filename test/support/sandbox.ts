import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect } from "vitest";
import { findByCommandLine, signalProcess, type LiveProcess } from "./live-processes.js";
import { waitFor } from "./wait-for.js";

export const libraryPath = resolve("dist/index.js");

/** The user of a supervising process. `uid` null: the user of the suite. */
export interface SandboxUser {
  readonly name: string;
  readonly uid: number | null;
  /** Null: possible here. Otherwise the reason to skip. */
  readonly whyNot: string | null;
}

/** The kernel features that the anchor may use. */
export interface SandboxTier {
  readonly name: string;
  /** For `HOLDFAST_ANCHOR_WEAKEN`. */
  readonly weaken: string;
  /** Matches the recorded tier. */
  readonly recorded: RegExp;
  /** True if a cgroup is delegated to the user. */
  readonly delegated: boolean;
  readonly whyNot: string | null;
}

const isRoot = process.getuid?.() === 0;

export function asUserCommand(uid: number): string[] {
  return ["setpriv", `--reuid=${uid}`, `--regid=${uid}`, "--clear-groups"];
}

/** A user other than root who can read this repository. */
export function ordinaryUser(uid: number): SandboxUser {
  const name = "ordinary user";
  if (!isRoot) return { name, uid: null, whyNot: null };
  const [command, ...args] = [
    ...asUserCommand(uid),
    process.execPath,
    "-e",
    `import(${JSON.stringify(libraryPath)})`,
  ];
  const { status, stderr } = spawnSync(command ?? "", args, { encoding: "utf8" });
  const whyNot = `no other user can use this repository here: ${stderr?.split("\n", 1)[0] ?? "no setpriv"}`;
  return { name, uid, whyNot: status === 0 ? null : whyNot };
}

export const rootUser: SandboxUser = {
  name: "root",
  uid: null,
  whyNot: isRoot ? null : "the suite does not run as root",
};
export const nobodyUser: SandboxUser = ordinaryUser(65_534);
/** The user of the suite. */
export const currentUser: SandboxUser = { name: isRoot ? "root" : "ordinary user", uid: null, whyNot: null };

/** A setuid program that becomes root, which the user can no longer signal. */
export function copySetuid(directory: string): string | null {
  const path = join(directory, "become-root");
  copyFileSync(spawnSync("which", ["setpriv"], { encoding: "utf8" }).stdout.trim(), path);
  chmodSync(path, 0o4755);
  const [command = "", ...args] = asUserCommand(nobodyUser.uid ?? 0);
  const { stdout } = spawnSync(command, [...args, path, "--reuid=0", "id", "-ru"], { encoding: "utf8" });
  return stdout.trim() === "0" ? path : null;
}

/** Where this suite may create cgroups, or the reason why it may not. */
const cgroupAccess: { readonly path: string } | { readonly whyNot: string } = (() => {
  const mounted = /^(?:\S+ ){4}(\S+) .* - cgroup2 /m.exec(readFileSync("/proc/self/mountinfo", "utf8"))?.[1];
  const own = /^0::(.*)$/m.exec(readFileSync("/proc/self/cgroup", "utf8"))?.[1];
  if (mounted === undefined || own === undefined) return { whyNot: "no cgroup v2 is mounted" };
  const path = join(mounted, own);
  try {
    const probe = join(path, `hf-probe-${randomBytes(4).toString("hex")}`);
    mkdirSync(probe);
    rmdirSync(probe);
    return { path };
  } catch (error) {
    return { whyNot: `no cgroup may be made here: ${(error as Error).message}` };
  }
})();

/** The cgroup of this suite, if it may create cgroups there. */
export const cgroupDirectory = "path" in cgroupAccess ? cgroupAccess.path : null;

const whyNoCgroup = "whyNot" in cgroupAccess ? cgroupAccess.whyNot : null;

function weakenedTier(name: string, weaken: string, recorded: RegExp): SandboxTier {
  const delegated = !weaken.includes("cgroup");
  return { name, weaken, recorded, delegated, whyNot: delegated ? whyNoCgroup : null };
}

export const tiers = {
  cgroup: weakenedTier("cgroup", "", /^cgroup\+launcher\+(unique|handle)$/),
  none: weakenedTier("none", "cgroup", /^subreaper\+launcher\+(unique|handle)$/),
  noInode: weakenedTier("none, no inode", "cgroup,inode", /^subreaper\+launcher\+handle$/),
  noPidfd: weakenedTier("none, no pidfd", "cgroup,pidfd", /^subreaper\+launcher\+number$/),
  noChildren: weakenedTier(
    "none, no children files",
    "cgroup,children",
    /^subreaper\+launcher\+(unique|handle)$/,
  ),
  cgroupNoPidfd: weakenedTier("cgroup, no pidfd", "pidfd", /^cgroup\+launcher\+number$/),
  /** Nothing is disabled and nothing is delegated, as for an ordinary user on most machines. */
  asFound: { ...weakenedTier("as found", "", /^subreaper\+launcher\+/), delegated: false, whyNot: null },
} as const satisfies Record<string, SandboxTier>;

/**
 * A user, a state directory, and for some tiers a cgroup delegated to that user. At the end no process and no cgroup of
 * Holdfast may be left.
 */
export class Sandbox implements AsyncDisposable {
  readonly user: SandboxUser;
  readonly tier: SandboxTier;
  /** The HOME of the user. */
  readonly directory: string;
  readonly home: string;
  readonly cgroup: string | null;
  readonly #limits: readonly string[];

  private constructor(user: SandboxUser, tier: SandboxTier, limits: readonly string[]) {
    this.user = user;
    this.tier = tier;
    this.#limits = limits;
    this.directory = mkdtempSync(join(tmpdir(), "hf-"));
    this.home = join(this.directory, "h");
    this.cgroup =
      tier.delegated && "path" in cgroupAccess
        ? join(cgroupAccess.path, `hf-test-${randomBytes(6).toString("hex")}`)
        : null;
  }

  /** `limits`: a command prefix such as `prlimit`. */
  static create(user: SandboxUser, tier: SandboxTier, limits: readonly string[] = []): Sandbox {
    const sandbox = new Sandbox(user, tier, limits);
    const owned = [sandbox.directory];
    if (sandbox.cgroup !== null) {
      mkdirSync(sandbox.cgroup);
      owned.push(
        sandbox.cgroup,
        join(sandbox.cgroup, "cgroup.procs"),
        join(sandbox.cgroup, "cgroup.subtree_control"),
      );
    }
    if (user.uid !== null) for (const path of owned) chownSync(path, user.uid, user.uid);
    return sandbox;
  }

  get env(): NodeJS.ProcessEnv {
    return {
      ...process.env,
      HOME: this.directory,
      HOLDFAST_HOME: this.home,
      HOLDFAST_ANCHOR_WEAKEN: this.tier.weaken,
    };
  }

  /** Starts a command as the user, in the cgroup of the sandbox. */
  spawn(argv: readonly string[], stderr: "pipe" | "ignore"): ChildProcess {
    const words = [...this.#limits, ...(this.user.uid === null ? [] : asUserCommand(this.user.uid)), ...argv];
    if (this.cgroup !== null)
      words.unshift("sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', this.cgroup);
    const [command, ...args] = words;
    return spawn(command ?? "", args, {
      env: this.env,
      cwd: this.directory,
      stdio: ["pipe", "pipe", stderr],
    });
  }

  /** Launchers and anchors: the state directory is in their command lines. */
  holdfastProcesses(): LiveProcess[] {
    return findByCommandLine(this.home);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await waitFor(
        "launcher and anchors are gone",
        () => this.holdfastProcesses().length === 0,
        5_000,
      ).catch((error: unknown) => {
        expect(
          this.holdfastProcesses().map(({ pid, argv }) => `${pid} ${argv.join(" ")}`),
          String(error),
        ).toEqual([]);
      });
      if (this.cgroup !== null) await this.#removeCgroup(this.cgroup);
    } finally {
      for (const one of this.holdfastProcesses()) signalProcess(one, "SIGKILL");
      if (this.cgroup !== null) killCgroup(this.cgroup);
      await rm(this.directory, { recursive: true, force: true, maxRetries: 5 });
    }
  }

  /** Succeeds only when Holdfast has removed its cgroups and no process is left in it. */
  async #removeCgroup(path: string): Promise<void> {
    let problem: unknown = null;
    await waitFor(
      "the cgroup can be removed",
      () => {
        try {
          rmdirSync(path);
          return true;
        } catch (error) {
          problem = error;
          return false;
        }
      },
      3_000,
    ).catch((error: unknown) => {
      throw new Error(`Holdfast left a cgroup behind: ${String(problem)}`, { cause: error });
    });
  }
}

/** After a failed test: all processes in the cgroup were started by it. */
function killCgroup(path: string): void {
  if (!existsSync(path)) return;
  writeFileSync(join(path, "cgroup.kill"), "1");
  spawnSync("find", [path, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"]);
}
