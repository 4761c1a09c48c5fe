import { join } from "node:path";
import { defaults } from "../defaults.js";
import type { ProcessIdentity } from "../store/run-record.js";
import { LimitUnavailable } from "../errors.js";
import { listBoundaries } from "./boundaries.js";
import { installAnchor } from "./binary.js";
import { launcherListens } from "./connect.js";
import type { Attempt } from "./failure.js";
import { findAnchor, requireSameRelease } from "./find.js";
import { type Answer, greet } from "./handshake.js";
import type {
  AnchorHost,
  AnchorLink,
  Boundary,
  BoundaryEvidence,
  DirectoryScope,
  FirstStop,
  InspectOptions,
  KnownAnchor,
  LocalInstance,
  MachineIdentity,
  NotedSilence,
  OutputSlice,
  PortEvidence,
  ProcessEvidence,
  ReapRequest,
  ReapResult,
  RunAddress,
  RunIdentities,
  RunRemains,
  StartSpec,
  StreamName,
  Swept,
} from "./host.js";
import { inspect } from "./inspect.js";
import { inspectPort } from "./inspect-port.js";
import { inspectBoundaries, inspectBoundaryMembers } from "./inspect-boundaries.js";
import { InstanceDirectories } from "./instance-directories.js";
import { type AnchorLoss, Launcher } from "./launcher.js";
import { NativeLink } from "./link.js";
import { LEASE_MARKER, listMarked, type MarkedProcess } from "./marked.js";
import type { LiveProcesses } from "./members.js";
import { FORMER_PROTOCOL, PROTOCOL } from "./protocol.js";
import { continueAnchor, reap } from "./reap.js";
import { removeInstance } from "./remove-instance.js";
import type { RunDirectories } from "./run-directory.js";
import { SpoolShelf } from "./spool-shelf.js";
import { helloFrame, newKey, type Speaker, startFrame } from "./start-message.js";
import { Turnstile } from "./turnstile.js";
import { attachFailure, isGone, startFailure } from "./unanswered.js";
import { toWelcome } from "./welcome.js";

export interface NativeHostOptions extends Speaker {
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
const STARTS_AT_ONCE = 32;

/** Puts the binary in place; the launcher is started by the first run. Rejects with AnchorUnusable. */
export async function openNativeHost(options: NativeHostOptions): Promise<NativeHost> {
  const source = options.anchorSource ?? findAnchor();
  requireSameRelease(source);
  const anchorPath = await installAnchor(options.home, source);
  return new Native(options, anchorPath);
}

/** Operations that need no supervisor: inspect runs, and stop a run with or without its anchor. */
export type NativeObserver = Pick<
  AnchorHost,
  | "machine"
  | "anchorPath"
  | "attach"
  | "remains"
  | "readOutput"
  | "instances"
  | "runIds"
  | "boundaries"
  | "inspect"
  | "inspectPort"
  | "inspectBoundaries"
  | "markedBy"
  | "reap"
  | "identities"
  | "continueAnchor"
  | "recordStop"
  | "recordSwept"
  | typeof Symbol.asyncDispose
> & {
  /** The scope in the run directory; null: there is none. */
  scope(run: RunAddress): Promise<DirectoryScope | null>;
  /** The processes of each cgroup; null: it is gone, or cannot be seen from here. */
  boundaryMembers(
    wanted: readonly Boundary[],
    options?: Pick<InspectOptions, "ports">,
  ): Promise<readonly (LiveProcesses | null)[]>;
  /** Every process with a lease id in its environment, by `value`. */
  markedProcesses(): Promise<readonly MarkedProcess[]>;
};

/** Looking writes nothing and starts nothing else: it works on a full disk, too. `anchorPath` is any anchor that runs here. */
export function observeNatively(home: string, machine: MachineIdentity, anchorPath: string): NativeObserver {
  const instanceId = OBSERVER;
  const instanceDir = join(home, "instances", instanceId);
  return new Native({ home, instanceId, instanceDir, incarnation: OBSERVER, machine }, anchorPath);
}

const OLD_LAUNCHER =
  "this gateway's launcher was started before an upgrade and knows no limits; nothing was run. It leaves when `holdfast gateway restart` finds none of its runs left";

/** No instance can have it: it is too long for one. */
const OBSERVER = "observes-only";

interface Opening {
  readonly link: AnchorLink | null;
  readonly answer: Answer;
}

class Native implements NativeHost, NativeObserver {
  readonly machine: MachineIdentity;
  readonly anchorPath: string;
  readonly #speaker: Speaker;
  readonly #launcher: Launcher;
  readonly #instances: InstanceDirectories;
  readonly #spools = new SpoolShelf();
  readonly #starts = new Turnstile(STARTS_AT_ONCE);
  readonly #links = new Set<AnchorLink>();
  readonly #lossListeners: ((loss: AnchorLoss) => void)[] = [];

  constructor(options: NativeHostOptions, anchorPath: string) {
    const { home, instanceId, incarnation, instanceDir, machine } = options;
    this.machine = machine;
    this.anchorPath = anchorPath;
    this.#speaker = { instanceId, incarnation };
    this.#instances = new InstanceDirectories(home, { instanceId, instanceDir });
    this.#launcher = new Launcher({ anchorPath, instanceDir, instanceId }, (loss) => {
      for (const listener of this.#lossListeners) listener(loss);
    });
  }

  onAnchorLost(listener: (loss: AnchorLoss) => void): void {
    this.#lossListeners.push(listener);
  }

  async start(spec: StartSpec): Promise<AnchorLink> {
    const run = { instanceId: this.#instances.own, runId: spec.runId };
    // Also checks the id before anything is started.
    this.#directory(run);
    const key = newKey();
    const frame = startFrame(PROTOCOL, spec, this.#speaker, key);
    const frameIn = (protocol: number): Buffer => {
      if (protocol === PROTOCOL) return frame;
      // A former launcher would skip them, and nobody would know.
      if (Object.values(spec.limits).some((limit) => limit !== null))
        throw new LimitUnavailable(spec.runId, 0, "limit", OLD_LAUNCHER);
      return startFrame(protocol, spec, this.#speaker, key);
    };
    const attempt = { cwd: spec.cwd, command: spec.argv[0] ?? "" };
    const { link, answer } = await this.#starts.pass(() => this.#launch(run, frameIn, attempt));
    if (link !== null) return link;
    throw startFailure(spec.runId, answer, attempt);
  }

  async attach(
    run: RunAddress,
    epoch: number,
    withinMs: number = defaults.anchorAnswerMs,
  ): Promise<AnchorLink | null> {
    const key = await this.#runsOf(run).key(run.runId);
    if (key === null) return null;
    const path = join(this.#directory(run), "sock");
    const greetIn = (protocol: number): Promise<Opening> =>
      this.#open(run, path, helloFrame(protocol, run.runId, epoch, this.#speaker, key), null, withinMs);
    let { link, answer } = await greetIn(PROTOCOL);
    // Started before an upgrade: it says what it speaks.
    if (
      answer.type === "refused" &&
      answer.refusal.codeName === "protocol" &&
      answer.refusal.protocol === FORMER_PROTOCOL
    )
      ({ link, answer } = await greetIn(FORMER_PROTOCOL));
    if (link !== null) return link;
    if (answer.type === "closed" && isGone(answer.error)) return null;
    throw attachFailure(run.runId, path, answer);
  }

  async readOutput(
    run: RunAddress,
    stream: StreamName,
    offset: number,
    maxBytes: number,
  ): Promise<OutputSlice> {
    return this.#spools.read(this.#directory(run), stream, offset, maxBytes);
  }

  async remains(run: RunAddress): Promise<RunRemains> {
    return this.#runsOf(run).remains(run.runId);
  }

  instances(): Promise<readonly LocalInstance[]> {
    return this.#instances.list();
  }

  async runIds(instanceId: string): Promise<readonly string[]> {
    return this.#instances.runs(instanceId).list();
  }

  async boundaries(instanceId: string): Promise<readonly (Boundary & { readonly runId: string })[]> {
    return listBoundaries(this.#instances.of(instanceId), instanceId);
  }

  async removeInstance(instanceId: string): Promise<boolean> {
    const directory = this.#instances.of(instanceId);
    return instanceId !== this.#instances.own && removeInstance(directory, instanceId);
  }

  inspect(
    wanted: readonly (ProcessIdentity | number)[],
    options?: InspectOptions,
  ): Promise<readonly ProcessEvidence[]> {
    return inspect(this.anchorPath, wanted, options);
  }

  async markedBy(leaseIds: readonly string[]): Promise<ReadonlySet<string>> {
    if (leaseIds.length === 0) return new Set();
    const carried = new Set((await this.markedProcesses()).map(({ value }) => value));
    return new Set(leaseIds.filter((leaseId) => carried.has(leaseId)));
  }

  markedProcesses(): Promise<readonly MarkedProcess[]> {
    return listMarked(this.anchorPath, LEASE_MARKER);
  }

  async scope(run: RunAddress): Promise<DirectoryScope | null> {
    return this.#runsOf(run).scope(run.runId);
  }

  boundaryMembers(
    wanted: readonly Boundary[],
    options?: Pick<InspectOptions, "ports">,
  ): Promise<readonly (LiveProcesses | null)[]> {
    return inspectBoundaryMembers(this.anchorPath, wanted, options);
  }

  inspectPort(port: number): Promise<PortEvidence> {
    return inspectPort(this.anchorPath, port);
  }

  inspectBoundaries(wanted: readonly Boundary[]): Promise<readonly BoundaryEvidence[]> {
    return inspectBoundaries(this.anchorPath, wanted);
  }

  reap(request: ReapRequest): Promise<ReapResult> {
    return reap(this.anchorPath, request);
  }

  identities(run: RunAddress): Promise<RunIdentities | null> {
    return this.#runsOf(run).identities(run.runId);
  }

  continueAnchor(anchor: KnownAnchor): Promise<string | null> {
    return continueAnchor(this.anchorPath, anchor);
  }

  takeSilence(run: RunAddress): Promise<NotedSilence | null> {
    return this.#runsOf(run).takeSilence(run.runId);
  }

  recordStop(run: RunAddress, stop: FirstStop): Promise<FirstStop> {
    return this.#runsOf(run).recordStop(run.runId, stop);
  }

  recordSwept(run: RunAddress, swept: Swept): Promise<void> {
    return this.#runsOf(run).recordSwept(run.runId, swept);
  }

  async size(run: RunAddress): Promise<number> {
    return this.#runsOf(run).size(run.runId);
  }

  async discard(run: RunAddress): Promise<void> {
    await this.#spools.putAway(this.#directory(run));
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

  #directory(run: RunAddress): string {
    return this.#runsOf(run).of(run.runId);
  }

  async #launch(run: RunAddress, frameIn: (protocol: number) => Buffer, attempt: Attempt): Promise<Opening> {
    const ask = (): Promise<Opening> =>
      this.#open(run, this.#launcher.socketPath, frameIn(this.#launcher.protocol), attempt);
    const held = await this.#launcher.hold();
    const opening = await ask();
    if (opening.answer.type !== "closed" || !isGone(opening.answer.error)) return opening;
    // Its anchor died, or the launcher did: which of its connections breaks first is chance, but then nobody listens.
    const listens =
      this.#launcher.isHeldBy(held) && (await launcherListens(this.#instances.of(run.instanceId)));
    if (listens && this.#launcher.isHeldBy(held)) return opening;
    this.#launcher.letGo(held);
    // Without a GO nothing has run, so a new launcher may be asked for the same.
    await this.#launcher.hold();
    return ask();
  }

  async #open(
    run: RunAddress,
    path: string,
    frame: Buffer,
    attempt: Attempt | null,
    withinMs: number = defaults.launcherReadyMs,
  ): Promise<Opening> {
    let link: NativeLink | null = null;
    const answer = await greet({
      path,
      frame,
      expected: "welcome",
      withinMs,
      next: (welcome, wire) => {
        const opened = new NativeLink(toWelcome(welcome), wire, attempt, {
          exitFile: () => this.#runsOf(run).exit(run.runId),
          linkClosed: () => this.#links.delete(opened),
        });
        this.#links.add(opened);
        link = opened;
        return opened;
      },
    });
    return { link, answer };
  }
}
