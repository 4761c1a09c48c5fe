import { defaults } from "../defaults.js";
import { newRunId } from "../model/ids.js";
import type { Launcher } from "./launcher.js";
import { handshake, type MessageConnection } from "./protocol/connection.js";
import { decodeWelcome } from "./protocol/events.js";
import type { StartSpec, Welcome } from "./protocol/link-contract.js";
import { newRunKey, type SupervisorIdentity, warmFrame } from "./protocol/requests.js";

/** An anchor that waits for START: its child is at the gate, without a command. */
export interface WarmAnchor {
  readonly runId: string;
  readonly key: string;
  readonly connection: MessageConnection;
  readonly welcome: Welcome;
}

/**
 * Keeps a few warm anchors, so that a start needs neither a fork nor a connection. Each has the id of its later run. Warm
 * anchors are made in the background from the second start on, so that a program with one run makes none. A used one is
 * replaced. One whose connection closes, because this process or the anchor ends, is forgotten.
 */
export class WarmAnchors {
  readonly #launcher: Launcher;
  readonly #identity: SupervisorIdentity;
  readonly #ready = new Map<string, WarmAnchor>();
  /** The run id of the anchor that is being made. */
  #making: string | null = null;
  #starts = 0;
  #timer: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(launcher: Launcher, identity: SupervisorIdentity) {
    this.#launcher = launcher;
    this.#identity = identity;
  }

  /** The run id of a warm anchor. Null: there is none. */
  next(): string | null {
    for (const runId of this.#ready.keys()) return runId;
    return null;
  }

  get(runId: string): WarmAnchor | null {
    return this.#ready.get(runId) ?? null;
  }

  /** Removes the anchor, which belongs to a run from now on. */
  take(warm: WarmAnchor): WarmAnchor {
    this.#ready.delete(warm.runId);
    return warm;
  }

  /** True for the run ids of warm anchors, and of the one that is being made. */
  has(runId: string): boolean {
    return this.#ready.has(runId) || this.#making === runId;
  }

  /** To be called with each start. Replaces used anchors a moment later. */
  onStart(): void {
    this.#starts++;
    if (this.#closed || this.#timer !== null || this.#starts < defaults.warmAfterStarts) return;
    this.#timer = setTimeout(() => {
      void this.#fill().finally(() => {
        this.#timer = null;
      });
    }, defaults.warmDelayMs);
    this.#timer.unref();
  }

  /** Closes all warm anchors. Called when the launcher is gone: no process would end a run whose anchor dies. */
  discard(): void {
    const all = [...this.#ready.values()];
    this.#ready.clear();
    for (const { connection } of all) connection.close();
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.discard();
  }

  /** Makes anchors until there are enough. After a failure, the next start tries again. */
  async #fill(): Promise<void> {
    while (!this.#closed && this.#ready.size < defaults.warmAnchors && this.#launcher.startsWarm)
      if (!(await this.#make())) return;
  }

  async #make(): Promise<boolean> {
    const runId = newRunId();
    const key = newRunKey();
    this.#making = runId;
    let made = false;
    await handshake({
      path: this.#launcher.socketPath,
      frame: warmFrame(runId, key, this.#identity),
      expected: "welcome",
      timeoutMs: defaults.launcherReadyMs,
      onAnswer: (welcome, connection) => {
        // A warm anchor must not keep this process from exiting.
        connection.keepAlive(false);
        made = !this.#closed && this.#launcher.startsWarm;
        if (made) this.#ready.set(runId, { runId, key, connection, welcome: decodeWelcome(welcome) });
        else connection.close();
        return { message: () => undefined, closed: () => this.#ready.delete(runId) };
      },
    });
    this.#making = null;
    return made;
  }
}

/** The answer that the anchor would give after START. It has prepared all pipes, of which the run may use fewer. */
export function welcomeOf(warm: WarmAnchor, spec: StartSpec): Welcome {
  const { welcome } = warm;
  return {
    ...welcome,
    highestEpoch: spec.epoch,
    kind: spec.policy.kind,
    stderr: { ...welcome.stderr, closed: spec.merge },
    stdinClosed: spec.stdin === "null",
  };
}

/** False with limits or a terminal, which the anchor must set up before it forks the child. */
export function canStartWarm({ io, limits }: Pick<StartSpec, "io" | "limits">): boolean {
  return io === "pipe" && Object.values(limits).every((limit) => limit === null);
}
