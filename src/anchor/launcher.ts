import { lstat, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { defaults } from "../defaults.js";
import { AnchorUnusable } from "../errors.js";
import { nobodyListens } from "./connect.js";
import { errorCode } from "./error-code.js";
import { greet } from "./handshake.js";
import type { LeaderStatus } from "./host.js";
import { startLauncher } from "./launcher-process.js";
import { type Content, encodeMessage, type Message } from "./message.js";
import { FORMER_PROTOCOL, PROTOCOL } from "./protocol.js";
import { toLeaderStatus } from "./welcome.js";
import type { Wire } from "./wire.js";

/** An anchor died without finishing; the launcher is killing what it left. */
export interface AnchorLoss {
  readonly runId: string;
  readonly anchorPid: number;
  readonly status: LeaderStatus | null;
}

export interface LauncherPlace {
  readonly anchorPath: string;
  readonly instanceDir: string;
  readonly instanceId: string;
}

const HOLD = encodeMessage("hold", {});

/** The instance's launcher, started when first needed and held while this supervisor lives. */
export class Launcher {
  readonly socketPath: string;
  readonly #place: LauncherPlace;
  readonly #onLoss: (loss: AnchorLoss) => void;
  /** Shared by concurrent first starts; null again when the launcher is lost. */
  #holding: Promise<Wire> | null = null;
  #wire: Wire | null = null;
  #protocol = PROTOCOL;
  #closed = false;

  constructor(place: LauncherPlace, onLoss: (loss: AnchorLoss) => void) {
    this.#place = place;
    this.#onLoss = onLoss;
    this.socketPath = join(place.instanceDir, "launcher.sock");
  }

  /** Returns when a launcher answers on `socketPath`, with the connection that holds it. Rejects with AnchorUnusable. */
  hold(): Promise<Wire> {
    if (this.#holding !== null) return this.#holding;
    const holding = this.#acquire();
    this.#holding = holding;
    holding.catch(() => {
      if (this.#holding === holding) this.#holding = null;
    });
    return holding;
  }

  /** What is spoken with the launcher that is held, and with the anchors it starts: those are of its own version. */
  get protocol(): number {
    return this.#protocol;
  }

  /** False as soon as that connection is known to be gone. */
  isHeldBy(wire: Wire): boolean {
    return this.#wire === wire;
  }

  /** That launcher no longer answers: the next `hold` begins anew. One that has replaced it meanwhile stays. */
  letGo(wire: Wire): void {
    if (this.#wire !== wire) return;
    this.#wire = null;
    this.#holding = null;
    wire.close();
  }

  /** A launcher without a holder leaves when its last anchor does. */
  close(): void {
    this.#closed = true;
    if (this.#wire !== null) this.letGo(this.#wire);
  }

  async #acquire(): Promise<Wire> {
    const found = await this.#greet();
    if (found !== null) return found;
    const { anchorPath, instanceDir, instanceId } = this.#place;
    await mkdir(join(instanceDir, "runs"), { recursive: true, mode: 0o700 });
    await removeStaleSocket(this.socketPath);
    await startLauncher(anchorPath, instanceDir, instanceId);
    const started = await this.#greet();
    if (started !== null) return started;
    throw new AnchorUnusable(
      anchorPath,
      `the launcher was started but does not listen on ${this.socketPath}; no run was started`,
    );
  }

  /** Null when nobody is there. */
  async #greet(): Promise<Wire | null> {
    if (this.#closed) throw this.#unusable("this supervisor has closed");
    let held: Wire | null = null;
    const answer = await greet({
      path: this.socketPath,
      frame: HOLD,
      expected: "launcher",
      withinMs: defaults.launcherReadyMs,
      next: ({ protocol }, wire) => {
        held = wire;
        this.#protocol = Math.min(protocol, PROTOCOL);
        return this.#hear(wire);
      },
    });
    switch (answer.type) {
      case "answered":
        if (this.#protocol >= FORMER_PROTOCOL) return held;
        throw this.#unusable(
          `it is of an old version (protocol ${this.#protocol}), and stays as long as one of its runs`,
        );
      case "closed":
        // An end without a word is a launcher on its way out: it leaves with its last anchor.
        if (answer.error === null || nobodyListens(answer.error) || errorCode(answer.error) === "ECONNRESET")
          return null;
        throw this.#unusable(answer.error.message);
      case "refused":
        throw this.#unusable(`${answer.refusal.codeName}: ${answer.refusal.message}`);
      case "failed":
        throw this.#unusable(answer.failure.message);
      case "silent":
        throw this.#unusable("it does not answer; it may be stopped (SIGSTOP) or starved");
    }
  }

  #hear(wire: Wire): { message(message: Message): void; closed(): void } {
    if (this.#closed) wire.close();
    this.#wire = wire;
    // Holding is no reason for a program to stay; its runs are.
    wire.keepAlive(false);
    return {
      message: (message) => {
        if (message.name === "anchorLost") this.#onLoss(toLoss(message));
      },
      closed: () => this.letGo(wire),
    };
  }

  #unusable(why: string): AnchorUnusable {
    const path = this.socketPath;
    return new AnchorUnusable(path, `the launcher on ${path} cannot be used: ${why}. No run was started`);
  }
}

function toLoss(message: Content<"anchorLost">): AnchorLoss {
  return { runId: message.runId, anchorPid: message.anchorPid, status: toLeaderStatus(message) };
}

/** Only a socket that nobody answers on; any other file there was put there by somebody. */
async function removeStaleSocket(path: string): Promise<void> {
  try {
    if (!(await lstat(path)).isSocket()) {
      throw new AnchorUnusable(path, `${path} is not a socket; move it away, then runs can be started`);
    }
    await rm(path, { force: true });
  } catch (error) {
    if (errorCode(error) !== "ENOENT") throw error;
  }
}
