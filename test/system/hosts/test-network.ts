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
  return status === 0 ? null : `no host can be made of namespaces here: ${stderr ?? "no unshare"}`;
})();

/** A network that nothing else is on, not even this process. It is gone with the last who is in it. */
export class TestNetwork implements AsyncDisposable {
  /** Of whoever serves all hosts. */
  readonly address = `${PREFIX}.1`;
  readonly #keeper: ChildProcess;
  #links = 0;

  private constructor(supervisorProcess: ChildProcess) {
    this.#keeper = supervisorProcess;
  }

  static async open(): Promise<TestNetwork> {
    // With an address of its own: otherwise it has that of a member, and nobody finds it when that one has left.
    const script = `ip link set lo up && ip link add hf address 02:00:00:00:00:01 type bridge && ip addr add ${PREFIX}.1/24 dev hf &&
      ip link set hf up && echo up && exec cat`;
    const supervisorProcess = spawn("unshare", ["--net", "sh", "-c", script], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    await waitForText(supervisorProcess.stdout, "up");
    return new TestNetwork(supervisorProcess);
  }

  /** Words that start a command in it. */
  get within(): readonly string[] {
    return ["nsenter", `--net=/proc/${this.#keeper.pid}/ns/net`];
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
    const gone = once(this.#keeper, "close");
    this.#keeper.stdin?.end();
    await gone;
  }
}

export interface NetworkLink {
  /** Nothing gets through, and nobody is told. */
  cut(): Promise<void>;
  mend(): Promise<void>;
}
