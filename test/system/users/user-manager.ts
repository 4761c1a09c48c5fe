import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chownSync, existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RecoveryFixture } from "../../support/cli/recovery-fixture.js";
import { type CliProcess, collectOutput } from "../../support/cli/cli-fixture.js";
import { cgroupDirectory, nobodyUser, tiers, asUserCommand } from "../../support/sandbox.js";
import { whyNoMounts } from "../../support/small-disk.js";
import { waitFor } from "../../support/wait-for.js";

const SYSTEMD = ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"].find((path) => existsSync(path));

/** Null if a systemd manager of an ordinary user can be started here. Otherwise the reason to skip. */
export const whyNoUserManager: string | null =
  SYSTEMD === undefined || spawnSync("systemd-run", ["--version"]).status !== 0
    ? "systemd is not installed"
    : nobodyUser.uid === null
      ? "only root can start a manager of another user"
      : (nobodyUser.whyNot ?? whyNoMounts ?? tiers.cgroup.whyNot);

/**
 * A mount namespace in which systemd seems to be running, with cgroup v2 as on a machine that was booted with it. Arguments:
 * the directory, the cgroup of the manager, the command.
 */
const ENTER = `set -e
umount --recursive /sys/fs/cgroup 2>/dev/null || umount --lazy /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system
mount -t tmpfs tmpfs /var/lib/systemd
mkdir /var/lib/systemd/linger
mount --bind "$1/linger" /var/lib/systemd/linger
echo $$ >"/sys/fs/cgroup$2/cgroup.procs"
shift 2
exec "$@"`;

/** A real systemd manager of the user `nobody`, and two login sessions of this user. */
export class UserManager implements AsyncDisposable {
  readonly #directory: string;
  readonly #cgroup: string;
  readonly #manager: ChildProcess;
  readonly #ended: Promise<unknown>;
  #log = "";

  private constructor() {
    const uid = nobodyUser.uid ?? 0;
    this.#directory = mkdtempSync(join(tmpdir(), "hf-"));
    mkdirSync(this.runtimeDirectory, { mode: 0o700 });
    mkdirSync(join(this.#directory, "linger"), { mode: 0o755 });
    for (const path of [this.#directory, this.runtimeDirectory]) chownSync(path, uid, uid);
    this.#cgroup = join(cgroupDirectory ?? "", `hf-test-${randomBytes(6).toString("hex")}`);
    const manager = join(this.#cgroup, `user@${uid}.service`);
    for (const path of [this.#cgroup, manager, this.session(1), this.session(2)]) mkdirSync(path);
    // The manager asks the system's manager to move a process out of a login session. Here is none, so it may do it itself.
    for (const path of [join(this.#cgroup, "cgroup.procs"), manager]) chownSync(path, uid, uid);
    for (const name of ["cgroup.procs", "cgroup.subtree_control"]) chownSync(join(manager, name), uid, uid);
    const command = [
      ...asUserCommand(uid),
      SYSTEMD ?? "",
      "--user",
      "--unit=basic.target",
      "--log-target=console",
    ];
    this.#manager = spawn(
      "unshare",
      [
        "--mount",
        "--propagation=private",
        "sh",
        "-c",
        ENTER,
        "sh",
        this.#directory,
        this.#pathOf(manager),
        ...command,
      ],
      { env: { PATH: process.env["PATH"], ...this.env }, stdio: ["ignore", "ignore", "pipe"] },
    );
    this.#manager.stderr?.on("data", (part: Buffer) => (this.#log += part.toString()));
    this.#ended = once(this.#manager, "exit");
  }

  static async start(): Promise<UserManager> {
    const manager = new UserManager();
    const socket = join(manager.runtimeDirectory, "systemd", "private");
    await waitFor(() => {
      if (manager.#manager.exitCode !== null) throw new Error(`the manager ended: ${manager.#log}`);
      return existsSync(socket);
    });
    return manager;
  }

  get pid(): number {
    return this.#manager.pid ?? 0;
  }

  get runtimeDirectory(): string {
    return join(this.#directory, "run");
  }

  get env(): NodeJS.ProcessEnv {
    return {
      HOME: this.#directory,
      XDG_RUNTIME_DIR: this.runtimeDirectory,
      DBUS_SESSION_BUS_ADDRESS: undefined,
    };
  }

  /** The cgroup of a login session, which belongs to root. */
  session(number: 1 | 2): string {
    return join(this.#cgroup, `session-${number}.scope`);
  }

  setLingering(): void {
    writeFileSync(join(this.#directory, "linger", "nobody"), "");
  }

  /** Starts a command of the user in a login session. */
  words(session: 1 | 2, ...command: readonly string[]): string[] {
    return [
      ...["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', this.session(session)],
      ...["nsenter", `--mount=/proc/${this.pid}/ns/mnt`, "--"],
      ...asUserCommand(nobodyUser.uid ?? 0),
      ...command,
    ];
  }

  /** The names of the gateways' scopes that exist now. */
  scopes(): string[] {
    const { stdout } = spawnSync("find", [this.#cgroup, "-name", "holdfast-gateway-*.scope"], {
      encoding: "utf8",
    });
    return stdout.split("\n").filter((path) => path !== "");
  }

  /** The path of a cgroup as in /proc. */
  #pathOf(directory: string): string {
    return directory.slice(
      (/^(?:\S+ ){4}(\S+) .* - cgroup2 /m.exec(readFileSync("/proc/self/mountinfo", "utf8"))?.[1] ?? "")
        .length,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#manager.kill("SIGCONT");
    this.#manager.kill("SIGTERM");
    await waitFor(
      "the manager has ended",
      () => this.#manager.exitCode !== null || this.#manager.signalCode !== null,
    )
      // After a failed test: all processes in the cgroup were started by it.
      .catch(() => writeFileSync(join(this.#cgroup, "cgroup.kill"), "1"));
    await this.#ended;
    await waitFor("the cgroups can be removed", () => {
      spawnSync("find", [this.#cgroup, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";"]);
      return !existsSync(this.#cgroup);
    });
    await rm(this.#directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** A state directory of the user, with commands in a login session. */
export class LoginSession extends RecoveryFixture {
  readonly #manager: UserManager;
  #session: 1 | 2 = 1;
  #env: NodeJS.ProcessEnv = {};

  private constructor(home: string, manager: UserManager) {
    super(home);
    this.#manager = manager;
  }

  static of(manager: UserManager): LoginSession {
    const home = mkdtempSync(join(tmpdir(), "hf-"));
    chownSync(home, nobodyUser.uid ?? 0, nobodyUser.uid ?? 0);
    return new LoginSession(home, manager);
  }

  override get env(): NodeJS.ProcessEnv {
    return { ...super.env, HOLDFAST_IN_PROCESS: undefined, ...this.#manager.env, ...this.#env };
  }

  /** The session and the variables of the next commands. */
  use(session: 1 | 2, env: NodeJS.ProcessEnv = {}): void {
    this.#session = session;
    this.#env = env;
  }

  protected override startProgram(env: NodeJS.ProcessEnv, words: readonly string[]): CliProcess {
    const all = { ...this.env, ...env };
    // The commands that enter the session are found with the PATH of the suite.
    const path = `PATH=${all["PATH"] ?? ""}`;
    const [command = "", ...args] = this.#manager.words(this.#session, "env", path, ...words);
    return collectOutput(
      spawn(command, args, { env: { ...all, PATH: process.env["PATH"] }, stdio: ["pipe", "pipe", "pipe"] }),
    );
  }

  /** Starts the gateway in the background. Returns its pid. */
  async startGateway(): Promise<number> {
    return (await this.json<{ readonly pid: number }>("gateway", "start")).pid;
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    this.use(1, { XDG_RUNTIME_DIR: "" });
    await this.holdfast("gateway", "stop", "--runs", "terminate");
    await super[Symbol.asyncDispose]();
  }
}

/** The path of a process's cgroup v2. */
export function cgroupOf(pid: number): string {
  return /^0::(.*)$/m.exec(readFileSync(`/proc/${pid}/cgroup`, "utf8"))?.[1] ?? "";
}
