import { execFile, spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { promisify } from "node:util";
import { waitForText } from "../../support/cli/cli-fixture.js";

const run = promisify(execFile);
const PREFIX = "10.213.0";

/** Null: networks and hosts of our own can be made here. */
export const whyNoHosts: string | null = (() => {
  if (process.platform !== "linux") return "hosts are made of Linux namespaces";
  if (process.env["HOLDFAST_TEST_NAMESPACE"] !== "root") return "hosts are made of namespaces by root";
  const link = "ip link add hf1 type veth peer name hf2 && ip link add hf type bridge";
  const names = "hostname other && mount --bind /etc/hostname /etc/machine-id";
  const boot = "mount --bind /etc/hostname /proc/sys/kernel/random/boot_id";
  const { status, stderr } = spawnSync(
    "unshare",
    ["--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"].concat([
      ...["sh", "-c", `${link} && ${names} && ${boot}`],
    ]),
    { encoding: "utf8" },
  );
  return status === 0 ? null : `namespaces for hosts cannot be created here: ${stderr ?? "no unshare"}`;
})();

/** A network namespace with a bridge. It ends with its last process. */
export class TestNetwork implements AsyncDisposable {
  /** The address of the server. */
  readonly address = `${PREFIX}.1`;
  readonly #holder: ChildProcess;
  #links = 0;

  private constructor(holder: ChildProcess) {
    this.#holder = holder;
  }

  static async open(): Promise<TestNetwork> {
    // A fixed MAC address: otherwise the bridge uses that of a member, and is lost when the member leaves.
    const script = `ip link set lo up && ip link add hf address 02:00:00:00:00:01 type bridge && ip addr add ${PREFIX}.1/24 dev hf &&
      ip link set hf up && echo up && exec cat`;
    const holder = spawn("unshare", ["--net", "sh", "-c", script], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    await waitForText(holder.stdout, "up");
    return new TestNetwork(holder);
  }

  /** The command prefix to run a command in it. */
  get within(): readonly string[] {
    return ["nsenter", `--net=/proc/${this.#holder.pid}/ns/net`];
  }

  /** Joins the network namespace of this process, under this address. */
  async join(pid: number, number: number): Promise<NetworkLink> {
    this.#links += 1;
    const name = `hf${this.#links}`;
    await this.#ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", String(pid));
    await this.#ip("link", "set", name, "master", "hf", "up");
    const there = (...words: string[]) => run("nsenter", [`--net=/proc/${pid}/ns/net`, "ip", ...words]);
    await there("addr", "add", `${PREFIX}.${number}/24`, "dev", "eth0");
    await there("link", "set", "lo", "up");
    await there("link", "set", "eth0", "up");
    return {
      cut: () => this.#ip("link", "set", name, "down"),
      mend: () => this.#ip("link", "set", name, "up"),
    };
  }

  async #ip(...words: string[]): Promise<void> {
    const [command = "", ...rest] = [...this.within, "ip", ...words];
    await run(command, rest);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const gone = once(this.#holder, "close");
    this.#holder.stdin?.end();
    await gone;
  }
}

export interface NetworkLink {
  /** Drops all packets silently. */
  cut(): Promise<void>;
  mend(): Promise<void>;
}
