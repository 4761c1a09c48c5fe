import { join } from "node:path";
import { Semaphore } from "../async/semaphore.js";
import { defaults } from "../defaults.js";
import { LimitUnavailable } from "../errors.js";
import type { ProcessIdentity, MachineIdentity } from "../model/process.js";
import { findAnchorBinary, requireSameVersion } from "./binary/find.js";
import { installAnchorBinary } from "./binary/install.js";
import type {
  AnchorHost,
  AnchorLink,
  CgroupRef,
  CgroupState,
  DirectoryScope,
  FirstStop,
  InspectOptions,
  KnownAnchor,
  LocalInstance,
  OutputSlice,
  PortEvidence,
  ProcessEvidence,
  ReapRequest,
  ReapResult,
  RunAddress,
  RunFiles,
  RunIdentities,
  SilentFile,
  StartSpec,
  StreamName,
  SweptFile,
} from "./host.js";
import { LEASE_MARKER, listMarkedProcesses, type MarkedProcess } from "./inspect/by-marker.js";
import { inspectCgroups, listCgroupMembers } from "./inspect/cgroups.js";
import { inspectPort, inspectProcesses, type LiveProcesses } from "./inspect/processes.js";
import { continueAnchor, reap } from "./inspect/reap.js";
import { InstanceDirectories, removeInstance } from "./instance/instance-directories.js";
import { listRunCgroups } from "./instance/run-cgroups.js";
import { type AnchorLoss, Launcher } from "./launcher.js";
import { isLauncherListening } from "./protocol/connection.js";
import { attachError, isDisconnected, type StartAttempt, startError } from "./protocol/errors.js";
import { decodeWelcome } from "./protocol/events.js";
import { handshake, type HandshakeResult } from "./protocol/handshake.js";
import { NativeLink } from "./protocol/link.js";
import { PREVIOUS_PROTOCOL, PROTOCOL } from "./protocol/messages.js";
import { helloFrame, newRunKey, startFrame, type SupervisorIdentity } from "./protocol/requests.js";
import type { RunDirectories } from "./run-dir/run-directories.js";
import { SpoolCache } from "./run-dir/spool-cache.js";

export interface NativeHostOptions extends SupervisorIdentity {
  readonly home: string;
  readonly instanceDir: string;
  readonly machine: MachineIdentity;
  /** The binary to install. Default: the package's, or what `HOLDFAST_ANCHOR` names. */
  readonly anchorSource?: string;
}

/** A host on this machine. */
export interface NativeHost extends AnchorHost {
  /** A run's anchor died; its link closes too, and `swept.json` follows when its tree is gone. */
  onAnchorLost(listener: (loss: AnchorLoss) => void): void;
}

/** Keeps all processors busy; far below the connections a launcher takes before they have said what they want. */
const MAX_CONCURRENT_STARTS = 32;

/** Puts the binary in place; the launcher is started by the first run. Rejects with AnchorUnusable. */
export async function openNativeHost(options: NativeHostOptions): Promise<NativeHost> {
  const source = options.anchorSource ?? findAnchorBinary();
  requireSameVersion(source);
  const anchorPath = await installAnchorBinary(options.home, source);
  return new NativeAnchorHost(options, anchorPath);
}

/** Operations that need no supervisor: inspect runs, and stop a run with or without its anchor. */
export type NativeObserver = Pick<
  AnchorHost,
  | "machine"
  | "anchorPath"
  | "attach"
  | "readRunFiles"
  | "readOutput"
  | "listInstances"
  | "listRunIds"
  | "listRunCgroups"
  | "inspectProcesses"
  | "inspectPort"
  | "inspectCgroups"
  | "findMarkedLeases"
  | "reap"
  | "readIdentities"
  | "continueAnchor"
  | "writeStopFile"
  | "writeSweptFile"
  | typeof Symbol.asyncDispose
> & {
  /** The scope in the run directory; null: there is none. */
  readScope(run: RunAddress): Promise<DirectoryScope | null>;
  /** The processes of each cgroup; null: it is gone, or cannot be seen from here. */
  listCgroupMembers(
    wanted: readonly CgroupRef[],
    options?: Pick<InspectOptions, "ports">,
  ): Promise<readonly (LiveProcesses | null)[]>;
  /** Every process with a lease id in its environment, by `value`. */
  listMarkedProcesses(): Promise<readonly MarkedProcess[]>;
};

/** Looking writes nothing and starts nothing else: it works on a full disk, too. `anchorPath` is any anchor that runs here. */
export function openNativeObserver(
  home: string,
  machine: MachineIdentity,
  anchorPath: string,
): NativeObserver {
  const instanceId = OBSERVER_ID;
  const instanceDir = join(home, "instances", instanceId);
  return new NativeAnchorHost(
    { home, instanceId, instanceDir, incarnation: OBSERVER_ID, machine },
    anchorPath,
  );
}

const OLD_LAUNCHER_MESSAGE =
  "this gateway's launcher was started before an upgrade and knows no limits; nothing was run. It leaves when `holdfast gateway restart` finds none of its runs left";

/** No instance can have it: it is too long for one. */
const OBSERVER_ID = "observes-only";

interface OpenAttempt {
  readonly link: AnchorLink | null;
  readonly answer: HandshakeResult;
}

class NativeAnchorHost implements NativeHost, NativeObserver {
  readonly machine: MachineIdentity;
  readonly anchorPath: string;
  readonly #identity: SupervisorIdentity;
  readonly #launcher: Launcher;
  readonly #instances: InstanceDirectories;
  readonly #spools = new SpoolCache();
  readonly #starts = new Semaphore(MAX_CONCURRENT_STARTS);
  readonly #links = new Set<AnchorLink>();
  readonly #lossListeners: ((loss: AnchorLoss) => void)[] = [];

  constructor(options: NativeHostOptions, anchorPath: string) {
    const { home, instanceId, incarnation, instanceDir, machine } = options;
    this.machine = machine;
    this.anchorPath = anchorPath;
    this.#identity = { instanceId, incarnation };
    this.#instances = new InstanceDirectories(home, { instanceId, instanceDir });
    this.#launcher = new Launcher({ anchorPath, instanceDir, instanceId }, (loss) => {
      for (const listener of this.#lossListeners) listener(loss);
    });
  }

  onAnchorLost(listener: (loss: AnchorLoss) => void): void {
    this.#lossListeners.push(listener);
  }

  async start(spec: StartSpec): Promise<AnchorLink> {
    const run = { instanceId: this.#instances.ownInstanceId, runId: spec.runId };
    // Also checks the id before anything is started.
    this.#runDirectory(run);
    const key = newRunKey();
    const frame = startFrame(PROTOCOL, spec, this.#identity, key);
    const encodeFor = (protocol: number): Buffer => {
      if (protocol === PROTOCOL) return frame;
      // A former launcher would skip them, and nobody would know.
      if (Object.values(spec.limits).some((limit) => limit !== null))
        throw new LimitUnavailable(spec.runId, 0, "limit", OLD_LAUNCHER_MESSAGE);
      return startFrame(protocol, spec, this.#identity, key);
    };
    const attempt = { cwd: spec.cwd, command: spec.argv[0] ?? "" };
    const { link, answer } = await this.#starts.run(() => this.#startAnchor(run, encodeFor, attempt));
    if (link !== null) return link;
    throw startError(spec.runId, answer, attempt);
  }

  async attach(
    run: RunAddress,
    epoch: number,
    withinMs: number = defaults.anchorAnswerMs,
  ): Promise<AnchorLink | null> {
    const key = await this.#runsOf(run).readKey(run.runId);
    if (key === null) return null;
    const path = join(this.#runDirectory(run), "sock");
    const attachWith = (protocol: number): Promise<OpenAttempt> =>
      this.#openLink(run, path, helloFrame(protocol, run.runId, epoch, this.#identity, key), null, withinMs);
    let { link, answer } = await attachWith(PROTOCOL);
    // Started before an upgrade: it says what it speaks.
    if (
      answer.type === "refused" &&
      answer.refusal.codeName === "protocol" &&
      answer.refusal.protocol === PREVIOUS_PROTOCOL
    )
      ({ link, answer } = await attachWith(PREVIOUS_PROTOCOL));
    if (link !== null) return link;
    if (answer.type === "closed" && isDisconnected(answer.error)) return null;
    throw attachError(run.runId, path, answer);
  }

  async readOutput(
    run: RunAddress,
    stream: StreamName,
    offset: number,
    maxBytes: number,
  ): Promise<OutputSlice> {
    return this.#spools.read(this.#runDirectory(run), stream, offset, maxBytes);
  }

  async readRunFiles(run: RunAddress): Promise<RunFiles> {
    return this.#runsOf(run).readRunFiles(run.runId);
  }

  listInstances(): Promise<readonly LocalInstance[]> {
    return this.#instances.list();
  }

  async listRunIds(instanceId: string): Promise<readonly string[]> {
    return this.#instances.runs(instanceId).list();
  }

  async listRunCgroups(instanceId: string): Promise<readonly (CgroupRef & { readonly runId: string })[]> {
    return listRunCgroups(this.#instances.pathOf(instanceId), instanceId);
  }

  async removeInstance(instanceId: string): Promise<boolean> {
    const directory = this.#instances.pathOf(instanceId);
    return instanceId !== this.#instances.ownInstanceId && removeInstance(directory, instanceId);
  }

  inspectProcesses(
    wanted: readonly (ProcessIdentity | number)[],
    options?: InspectOptions,
  ): Promise<readonly ProcessEvidence[]> {
    return inspectProcesses(this.anchorPath, wanted, options);
  }

  async findMarkedLeases(leaseIds: readonly string[]): Promise<ReadonlySet<string>> {
    if (leaseIds.length === 0) return new Set();
    const present = new Set((await this.listMarkedProcesses()).map(({ value }) => value));
    return new Set(leaseIds.filter((leaseId) => present.has(leaseId)));
  }

  listMarkedProcesses(): Promise<readonly MarkedProcess[]> {
    return listMarkedProcesses(this.anchorPath, LEASE_MARKER);
  }

  async readScope(run: RunAddress): Promise<DirectoryScope | null> {
    return this.#runsOf(run).readScope(run.runId);
  }

  listCgroupMembers(
    wanted: readonly CgroupRef[],
    options?: Pick<InspectOptions, "ports">,
  ): Promise<readonly (LiveProcesses | null)[]> {
    return listCgroupMembers(this.anchorPath, wanted, options);
  }

  inspectPort(port: number): Promise<PortEvidence> {
    return inspectPort(this.anchorPath, port);
  }

  inspectCgroups(wanted: readonly CgroupRef[]): Promise<readonly CgroupState[]> {
    return inspectCgroups(this.anchorPath, wanted);
  }

  reap(request: ReapRequest): Promise<ReapResult> {
    return reap(this.anchorPath, request);
  }

  readIdentities(run: RunAddress): Promise<RunIdentities | null> {
    return this.#runsOf(run).readIdentities(run.runId);
  }

  continueAnchor(anchor: KnownAnchor): Promise<string | null> {
    return continueAnchor(this.anchorPath, anchor);
  }

  takeSilentFile(run: RunAddress): Promise<SilentFile | null> {
    return this.#runsOf(run).takeSilentFile(run.runId);
  }

  writeStopFile(run: RunAddress, stop: FirstStop): Promise<FirstStop> {
    return this.#runsOf(run).writeStopFile(run.runId, stop);
  }

  writeSweptFile(run: RunAddress, swept: SweptFile): Promise<void> {
    return this.#runsOf(run).writeSweptFile(run.runId, swept);
  }

  async directorySize(run: RunAddress): Promise<number> {
    return this.#runsOf(run).size(run.runId);
  }

  async removeRunDirectory(run: RunAddress): Promise<void> {
    await this.#spools.evict(this.#runDirectory(run));
    await this.#runsOf(run).remove(run.runId);
  }

  /** Lets go of everything: to the anchors of open links this is owner loss. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#launcher.close();
    for (const link of this.#links) link.close();
    await this.#spools[Symbol.asyncDispose]();
  }

  #runsOf({ instanceId }: RunAddress): RunDirectories {
    return this.#instances.runs(instanceId);
  }

  #runDirectory(run: RunAddress): string {
    return this.#runsOf(run).pathOf(run.runId);
  }

  async #startAnchor(
    run: RunAddress,
    encodeFor: (protocol: number) => Buffer,
    attempt: StartAttempt,
  ): Promise<OpenAttempt> {
    const ask = (): Promise<OpenAttempt> =>
      this.#openLink(run, this.#launcher.socketPath, encodeFor(this.#launcher.protocol), attempt);
    const launcherConnection = await this.#launcher.hold();
    const attempted = await ask();
    if (attempted.answer.type !== "closed" || !isDisconnected(attempted.answer.error)) return attempted;
    // Its anchor died, or the launcher did: which of its connections breaks first is chance, but then nobody listens.
    const listens =
      this.#launcher.isHeldBy(launcherConnection) &&
      (await isLauncherListening(this.#instances.pathOf(run.instanceId)));
    if (listens && this.#launcher.isHeldBy(launcherConnection)) return attempted;
    this.#launcher.release(launcherConnection);
    // Without a GO nothing has run, so a new launcher may be asked for the same.
    await this.#launcher.hold();
    return ask();
  }

  async #openLink(
    run: RunAddress,
    path: string,
    frame: Buffer,
    attempt: StartAttempt | null,
    withinMs: number = defaults.launcherReadyMs,
  ): Promise<OpenAttempt> {
    let link: NativeLink | null = null;
    const answer = await handshake({
      path,
      frame,
      expected: "welcome",
      timeoutMs: withinMs,
      onAnswer: (welcome, connection) => {
        const opened = new NativeLink(decodeWelcome(welcome), connection, attempt, {
          readExit: () => this.#runsOf(run).readExit(run.runId),
          onClosed: () => this.#links.delete(opened),
        });
        this.#links.add(opened);
        link = opened;
        return opened;
      },
    });
    return { link, answer };
  }
}
