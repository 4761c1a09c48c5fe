import { join } from "node:path";
import { Semaphore } from "../async/concurrency.js";
import { LimitUnavailable } from "../errors.js";
import { findAnchorBinary, installAnchorBinary, requireSameVersion } from "./binary.js";
import type { AnchorHost, AnchorLink, RunAddress, SilentFile, StartSpec } from "./host-interface.js";
import { listCgroups, removeInstance } from "./instance/instance-directories.js";
import { type AnchorLoss, Launcher } from "./launcher.js";
import { NativeObserver, type NativeObserverOptions, type OpenAttempt } from "./native-observer.js";
import { isLauncherListening, isListening } from "./protocol/connection.js";
import { isDisconnected, type StartAttempt, startError } from "./protocol/errors.js";
import { PROTOCOL } from "./protocol/messages.js";
import { newRunKey, startFrame } from "./protocol/requests.js";
import { canStartWarm, type WarmAnchor, WarmAnchors, welcomeOf } from "./warm-anchors.js";

interface NativeHostOptions extends NativeObserverOptions {
  /** The binary to install. Default: the package's, or the value of `HOLDFAST_ANCHOR`. */
  readonly anchorSource?: string;
}

/** A host on this machine. */
export interface NativeHost extends AnchorHost {
  /** Reports that a run's anchor died. Its link closes too, and `swept.json` follows when its tree is empty. */
  onAnchorLost(listener: (loss: AnchorLoss) => void): void;
}

/** Enough to keep all processors busy, and far below the connections a launcher accepts before their first message. */
const MAX_CONCURRENT_STARTS = 32;

/** Installs the binary; the first run starts the launcher. Rejects with AnchorUnusable. */
export async function openNativeHost(options: NativeHostOptions): Promise<NativeHost> {
  const source = options.anchorSource ?? findAnchorBinary();
  requireSameVersion(source);
  const anchorPath = await installAnchorBinary(options.home, source);
  return new NativeAnchorHost(options, anchorPath);
}

const OLD_LAUNCHER_MESSAGE =
  "this gateway's launcher was started before an upgrade and does not support limits; nothing was run. `holdfast gateway restart` replaces it when none of its runs are left";

class NativeAnchorHost extends NativeObserver implements NativeHost {
  readonly #launcher: Launcher;
  readonly #warm: WarmAnchors;
  readonly #starts = new Semaphore(MAX_CONCURRENT_STARTS);
  readonly #lossListeners: ((loss: AnchorLoss) => void)[] = [];

  constructor(options: NativeHostOptions, anchorPath: string) {
    super(options, anchorPath);
    const { instanceId, instanceDir } = options;
    this.#launcher = new Launcher({ anchorPath, instanceDir, instanceId }, (loss) => {
      for (const listener of this.#lossListeners) listener(loss);
    });
    this.#warm = new WarmAnchors(this.#launcher, this.identity);
    this.#launcher.onReleased = () => this.#warm.discard();
  }

  nextWarmRun(): string | null {
    return this.#warm.next();
  }

  override async listWarmRunIds(instanceId: string): Promise<readonly string[]> {
    return (await super.listWarmRunIds(instanceId)).filter((runId) => !this.#warm.has(runId));
  }

  onAnchorLost(listener: (loss: AnchorLoss) => void): void {
    this.#lossListeners.push(listener);
  }

  async start(spec: StartSpec): Promise<AnchorLink> {
    const run = { instanceId: this.instances.ownInstanceId, runId: spec.runId };
    // Validates the id before anything is started.
    this.runDirectory(run);
    const warm = canStartWarm(spec) ? this.#warm.get(spec.runId) : null;
    const key = warm?.key ?? newRunKey();
    const frame = startFrame(PROTOCOL, spec, this.identity, key);
    const encodeFor = (protocol: number): Buffer => {
      if (protocol === PROTOCOL) return frame;
      // An older launcher would silently ignore limits.
      if (Object.values(spec.limits).some((limit) => limit !== null))
        throw new LimitUnavailable(spec.runId, 0, "limit", OLD_LAUNCHER_MESSAGE);
      return startFrame(protocol, spec, this.identity, key);
    };
    const attempt = { cwd: spec.cwd, command: spec.argv[0] ?? "" };
    this.#warm.onStart();
    if (warm !== null) return this.#startWarm(this.#warm.take(warm), frame, spec, attempt);
    const { link, answer } = await this.#starts.run(() => this.#startAnchor(run, encodeFor, attempt));
    if (link !== null) return link;
    throw startError(spec.runId, answer, attempt);
  }

  async discardWarmAnchor(run: RunAddress): Promise<void> {
    const { instanceId, runId } = run;
    const runs = this.runsOf(run);
    if (this.#warm.has(runId) || (await isListening(join(runs.warmPathOf(runId), "sock")))) return;
    const cgroups = await listCgroups(this.instances.pathOf(instanceId), instanceId);
    const cgroup = cgroups.find((each) => each.runId === runId) ?? null;
    // The child exits with its anchor, unless it is stopped.
    if (cgroup !== null) await this.reap({ root: null, cgroup, leaseId: null, graceMs: 0 });
    await runs.removeWarm(runId);
  }

  async removeInstance(instanceId: string): Promise<boolean> {
    const directory = this.instances.pathOf(instanceId);
    return instanceId !== this.instances.ownInstanceId && removeInstance(directory, instanceId);
  }

  takeSilentFile(run: RunAddress): Promise<SilentFile | null> {
    return this.runsOf(run).takeSilentFile(run.runId);
  }

  async directorySize(run: RunAddress): Promise<number> {
    return this.runsOf(run).size(run.runId);
  }

  async removeRunDirectory(run: RunAddress): Promise<void> {
    await this.spools.evict(this.runDirectory(run));
    await this.runsOf(run).remove(run.runId);
  }

  override async [Symbol.asyncDispose](): Promise<void> {
    this.#warm.close();
    this.#launcher.close();
    await super[Symbol.asyncDispose]();
  }

  /** Does not wait: the identities are known, and nothing runs before GO. */
  #startWarm(warm: WarmAnchor, frame: Buffer, spec: StartSpec, attempt: StartAttempt): AnchorLink {
    const run = { instanceId: this.instances.ownInstanceId, runId: spec.runId };
    const { connection } = warm;
    const link = this.createLink(run, welcomeOf(warm, spec), connection, attempt);
    connection.listener = link;
    connection.keepAlive(true);
    connection.send(frame);
    return link;
  }

  async #startAnchor(
    run: RunAddress,
    encodeFor: (protocol: number) => Buffer,
    attempt: StartAttempt,
  ): Promise<OpenAttempt> {
    const ask = (): Promise<OpenAttempt> =>
      this.openLink(run, this.#launcher.socketPath, encodeFor(this.#launcher.protocol), attempt);
    const launcherConnection = await this.#launcher.hold();
    const attempted = await ask();
    if (attempted.answer.type !== "closed" || !isDisconnected(attempted.answer.error)) return attempted;
    // Either the anchor died or the launcher did. If the launcher died, no process listens on its socket.
    const listens =
      this.#launcher.isHeldBy(launcherConnection) &&
      (await isLauncherListening(this.instances.pathOf(run.instanceId)));
    if (listens && this.#launcher.isHeldBy(launcherConnection)) return attempted;
    this.#launcher.release(launcherConnection);
    // Nothing runs before GO, so the start can be repeated with a new launcher.
    await this.#launcher.hold();
    return ask();
  }
}
