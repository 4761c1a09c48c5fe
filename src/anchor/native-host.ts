import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { defaults } from "../defaults.js";
import type { ProcessIdentity } from "../store/run-record.js";
import { findAnchor, installAnchor } from "./binary.js";
import { nobodyListens } from "./connect.js";
import type { Attempt } from "./failure.js";
import { type Answer, greet } from "./handshake.js";
import type {
  AnchorHost,
  AnchorLink,
  MachineIdentity,
  OutputSlice,
  ProcessEvidence,
  ReapRequest,
  ReapResult,
  RunRemains,
  StartSpec,
  StreamName,
} from "./host.js";
import { inspect } from "./inspect.js";
import { type AnchorLoss, Launcher } from "./launcher.js";
import { NativeLink } from "./link.js";
import { reap } from "./reap.js";
import { RunDirectories } from "./run-directory.js";
import { SpoolShelf } from "./spool-shelf.js";
import { helloFrame, type Speaker, startFrame } from "./start-message.js";
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
  const anchorPath = await installAnchor(options.home, options.anchorSource ?? findAnchor());
  return new Native(options, anchorPath);
}

interface Opening {
  readonly link: AnchorLink | null;
  readonly answer: Answer;
}

class Native implements NativeHost {
  readonly machine: MachineIdentity;
  readonly anchorPath: string;
  readonly #speaker: Speaker;
  readonly #launcher: Launcher;
  readonly #runs: RunDirectories;
  readonly #spools: SpoolShelf;
  readonly #starts = new Turnstile(STARTS_AT_ONCE);
  readonly #links = new Set<AnchorLink>();
  readonly #lossListeners: ((loss: AnchorLoss) => void)[] = [];

  constructor(options: NativeHostOptions, anchorPath: string) {
    const { instanceId, incarnation, instanceDir, machine } = options;
    this.machine = machine;
    this.anchorPath = anchorPath;
    this.#speaker = { instanceId, incarnation };
    this.#runs = new RunDirectories(instanceDir);
    this.#spools = new SpoolShelf(this.#runs.path);
    this.#launcher = new Launcher({ anchorPath, instanceDir, instanceId }, (loss) => {
      for (const listener of this.#lossListeners) listener(loss);
    });
  }

  onAnchorLost(listener: (loss: AnchorLoss) => void): void {
    this.#lossListeners.push(listener);
  }

  async start(spec: StartSpec): Promise<AnchorLink> {
    // Also checks the id before anything is started.
    this.#runs.of(spec.runId);
    const frame = startFrame(spec, this.#speaker, randomBytes(32).toString("hex"));
    const attempt = { cwd: spec.cwd, command: spec.argv[0] ?? "" };
    const { link, answer } = await this.#starts.pass(() => this.#launch(spec.runId, frame, attempt));
    if (link !== null) return link;
    throw startFailure(spec.runId, answer, attempt);
  }

  async attach(runId: string, epoch: number): Promise<AnchorLink | null> {
    const key = await this.#runs.key(runId);
    if (key === null) return null;
    const path = join(this.#runs.of(runId), "sock");
    const { link, answer } = await this.#open(
      runId,
      path,
      helloFrame(runId, epoch, this.#speaker, key),
      null,
    );
    if (link !== null) return link;
    if (answer.type === "closed" && isGone(answer.error)) return null;
    throw attachFailure(runId, path, answer);
  }

  readOutput(runId: string, stream: StreamName, offset: number, maxBytes: number): Promise<OutputSlice> {
    this.#runs.of(runId);
    return this.#spools.read(runId, stream, offset, maxBytes);
  }

  remains(runId: string): Promise<RunRemains> {
    return this.#runs.remains(runId);
  }

  runIds(): Promise<readonly string[]> {
    return this.#runs.list();
  }

  inspect(wanted: readonly (ProcessIdentity | number)[]): Promise<readonly ProcessEvidence[]> {
    return inspect(this.anchorPath, wanted);
  }

  reap(request: ReapRequest): Promise<ReapResult> {
    return reap(this.anchorPath, request);
  }

  async discard(runId: string): Promise<void> {
    await this.#spools.putAway(runId);
    await this.#runs.remove(runId);
  }

  /** Lets go of everything: to the anchors of open links this is owner loss. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#launcher.close();
    for (const link of this.#links) link.close();
    await this.#spools[Symbol.asyncDispose]();
  }

  async #launch(runId: string, frame: Buffer, attempt: Attempt): Promise<Opening> {
    const held = await this.#launcher.hold();
    const opening = await this.#open(runId, this.#launcher.socketPath, frame, attempt);
    if (opening.answer.type !== "closed") return opening;
    if (nobodyListens(opening.answer.error)) this.#launcher.letGo(held);
    // Both connections of a dead launcher end at once, in either order.
    else await setImmediate();
    if (this.#launcher.isHeldBy(held)) return opening;
    // The launcher died. Without a GO nothing has run, so a new one may be asked for the same.
    await this.#launcher.hold();
    return this.#open(runId, this.#launcher.socketPath, frame, attempt);
  }

  async #open(runId: string, path: string, frame: Buffer, attempt: Attempt | null): Promise<Opening> {
    let link: NativeLink | null = null;
    const answer = await greet({
      path,
      frame,
      expected: "welcome",
      withinMs: defaults.launcherReadyMs,
      next: (welcome, wire) => {
        const opened = new NativeLink(toWelcome(welcome), wire, attempt, {
          exitFile: () => this.#runs.exit(runId),
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
