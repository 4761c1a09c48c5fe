import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { findAnchorBinary } from "../../../src/anchor/binary.js";
import { anchorEnvironment } from "../../../src/anchor/one-shot-modes.js";
import { encodeMessage, type MessageFields } from "../../../src/anchor/protocol/message-codec.js";
import { RawLink } from "./raw-link.js";

type StartContent = MessageFields<"start">;
type HelloContent = MessageFields<"hello">;

/** How long the owner-loss clock may keep a process alive after a test. */
const EXIT_TIMEOUT_MS = 5_000;

/**
 * Uses the launcher without the product's TypeScript: the binary, its socket, frames. At the end of the test every
 * connection is closed, and the launcher must exit by itself, which it does when no anchor is left.
 */
export class RawLauncher {
  readonly directory: string;
  readonly instanceId: string;
  readonly pid: number;
  readonly #links: RawLink[] = [];
  readonly #keys = new Map<string, string>();

  private constructor(directory: string, instanceId: string, child: ChildProcess) {
    this.directory = directory;
    this.instanceId = instanceId;
    this.pid = child.pid ?? 0;
  }

  /** `before` is shell code that runs before the launcher, such as `ulimit -n 64`. */
  static async start(env: NodeJS.ProcessEnv = anchorEnvironment(), before = ":"): Promise<RawLauncher> {
    const directory = await mkdtemp(join(tmpdir(), "hf-raw-"));
    const instance = `in_${randomBytes(4).toString("hex")}`;
    const command = [findAnchorBinary(), "launch", "--dir", directory, "--instance", instance];
    const child = spawn("/bin/sh", ["-c", `${before}; exec "$@"`, "sh", ...command], {
      detached: true,
      stdio: ["ignore", "pipe", "inherit"],
      env,
    });
    const left = once(child, "exit");
    const launcher = new RawLauncher(directory, instance, child);
    onTestFinished(async () => {
      launcher.disconnectAll();
      const late = AbortSignal.timeout(EXIT_TIMEOUT_MS);
      const stays = new Promise((resolve) => late.addEventListener("abort", () => resolve("stays")));
      if ((await Promise.race([left, stays])) === "stays") {
        child.kill("SIGKILL");
        throw new Error("the launcher did not leave: something of the test is still alive");
      }
      await rm(directory, { recursive: true, force: true });
    });
    const [ready] = (await once(child.stdout, "data")) as [Buffer];
    if (!ready.toString().includes('"ready":true')) throw new Error(`no launcher: ${ready.toString()}`);
    await launcher.hold();
    return launcher;
  }

  /** Opens a connection to the launcher that sent HOLD and was answered. */
  async hold(): Promise<RawLink> {
    const link = await this.connect();
    link.send(encodeMessage("hold", {}));
    await link.receive("launcher");
    return link;
  }

  /** Opens a connection to the launcher without sending anything. */
  connect(): Promise<RawLink> {
    return this.#open(join(this.directory, "launcher.sock"));
  }

  /** Opens a connection to the anchor of a run without sending anything. */
  connectTo(runId: string): Promise<RawLink> {
    return this.#open(join(this.runDirectory(runId), "sock"));
  }

  runDirectory(runId: string): string {
    return join(this.directory, "runs", runId);
  }

  /** Sends START and awaits WELCOME: the gate is closed. */
  async start(runId: string, script: string, change: Partial<StartContent> = {}): Promise<RawLink> {
    const link = await this.connect();
    link.send(this.startFrame(runId, script, change));
    await link.receive("welcome");
    return link;
  }

  /** Sends START and GO and awaits the answers. */
  async run(runId: string, script: string, change: Partial<StartContent> = {}): Promise<RawLink> {
    const link = await this.start(runId, script, change);
    link.send(encodeMessage("go", {}));
    await link.receive("started");
    return link;
  }

  /** Sends HELLO and awaits WELCOME. */
  async attach(runId: string, epoch: number): Promise<RawLink> {
    const link = await this.connectTo(runId);
    link.send(this.helloFrame(runId, { epoch }));
    await link.receive("welcome");
    return link;
  }

  /** An ADOPT frame for the connection of the run that the process is in. */
  async adoptFrame(runId: string, pid: number): Promise<Buffer> {
    const key = randomBytes(32).toString("hex");
    this.#keys.set(runId, key);
    const stat = await readFile(`/proc/${pid}/stat`, "latin1");
    const rootStart = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]);
    const root = { rootPid: pid, rootStart, rootUnique: "0" };
    return encodeMessage("adopt", { runId, key, ...root, graceMs: 200, scope: null });
  }

  startFrame(runId: string, script: string, change: Partial<StartContent> = {}): Buffer {
    return encodeMessage("start", this.startContent(runId, script, change));
  }

  /** Ends soon after its owner is gone, so that no process outlives a failing test for long. */
  startContent(runId: string, script: string, change: Partial<StartContent> = {}): StartContent {
    const key = change.key ?? randomBytes(32).toString("hex");
    this.#keys.set(runId, key);
    return {
      runId,
      protocol: 1,
      instanceId: "in_raw",
      incarnation: "one",
      epoch: 1,
      key,
      args: ["/bin/sh", "-c", script],
      verbatim: false,
      env: ["PATH=/usr/bin:/bin", `HOLDFAST_RUN_ID=${runId}`],
      cwd: "/",
      umask: null,
      pty: 0,
      merge: 0,
      stdin: 1,
      rows: 24,
      cols: 80,
      kind: 0,
      onEscape: 0,
      graceMs: 500,
      settleMs: 50,
      drainMs: 500,
      killReportMs: 500,
      overallMs: 0,
      noOutputMs: 0,
      ownerLossMs: 200,
      backstopMs: 500,
      outBound: 1 << 20,
      outPolicy: 0,
      errBound: 1 << 20,
      errPolicy: 0,
      memoryBytes: null,
      pids: null,
      milliCpus: null,
      scope: null,
      ...change,
    };
  }

  helloFrame(runId: string, change: Partial<HelloContent> = {}): Buffer {
    return encodeMessage("hello", this.helloContent(runId, change));
  }

  helloContent(runId: string, change: Partial<HelloContent> = {}): HelloContent {
    const key = this.#keys.get(runId) ?? "";
    return { protocol: 1, runId, instanceId: "in_raw", incarnation: "two", epoch: 0, key, ...change };
  }

  /** No supervisor is connected any more. */
  disconnectAll(): void {
    for (const link of this.#links) link.close();
  }

  /** Reads one of a run's files as JSON; null if it does not exist. */
  async readRunFile(runId: string, name: string): Promise<unknown> {
    const path = join(this.runDirectory(runId), name);
    return existsSync(path) ? (JSON.parse(await readFile(path, "utf8")) as unknown) : null;
  }

  /** Reads the first segment of a stream, which is all of it in tests that write little. */
  async output(runId: string, stream: "stdout" | "stderr" = "stdout"): Promise<string> {
    return readFile(join(this.runDirectory(runId), `${stream}.${"0".repeat(20)}`), "utf8").catch(() => "");
  }

  async #open(path: string): Promise<RawLink> {
    const link = await RawLink.open(path);
    this.#links.push(link);
    return link;
  }
}
