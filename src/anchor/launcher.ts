import { type ChildProcess, spawn } from "node:child_process";
import { lstat, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { defaults } from "../defaults.js";
import { AnchorUnusable } from "../errors.js";
import { errnoCode, errorMessage } from "../home/errno.js";
import { asBoolean, asNullable, asObject, asString, parseJson } from "../text/parse-json.js";
import { anchorEnvironment } from "./one-shot-modes.js";
import { handshake, isNotListening, type MessageConnection } from "./protocol/connection.js";
import { decodeLeaderStatus } from "./protocol/events.js";
import { type AnchorMessage, encodeMessage, type MessageFields } from "./protocol/message-codec.js";
import { PREVIOUS_PROTOCOL, PROTOCOL } from "./protocol/messages.js";
import type { LeaderStatus } from "./run-dir/run-file-types.js";

/** Longer than any ready line; a process that writes more is not the launcher. */
const MAX_READY_LINE = 64 * 1024;

/** Starts a launcher in its own session and returns when it listens. The launcher outlives this process. */
async function startLauncher(anchorPath: string, instanceDir: string, instanceId: string): Promise<void> {
  const child = spawn(anchorPath, ["launch", "--dir", instanceDir, "--instance", instanceId], {
    detached: true,
    windowsHide: true,
    stdio: ["ignore", "pipe", "ignore"],
    env: anchorEnvironment(),
    // The caller's directory may be on a file system that is to be unmounted.
    cwd: "/",
  });
  try {
    const line = await readReadyLine(child);
    const parsed = parseJson(line, (value) => {
      const object = asObject(value);
      return { ready: asBoolean(object["ready"]), message: asNullable(asString, object["message"]) };
    });
    if (parsed === null) throw new Error(`it wrote ${JSON.stringify(line.slice(0, 200))}`);
    if (!parsed.ready) throw new Error(parsed.message ?? "it is not ready");
  } catch (cause) {
    // The child is not reaped yet, so its pid is not reused. A launcher that is not ready holds no runs.
    child.kill("SIGKILL");
    throw new AnchorUnusable(anchorPath, describeStartError(anchorPath, cause), { cause });
  } finally {
    child.stdout?.destroy();
    child.unref();
  }
}

function readReadyLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = "";
    const limit = defaults.launcherReadyMs;
    const timer = setTimeout(() => reject(new Error(`it was not ready within ${limit} ms`)), limit);
    const settle = (act: () => void): void => {
      clearTimeout(timer);
      act();
    };
    child.on("error", (error) => settle(() => reject(error)));
    child.on("close", (code, signal) => {
      settle(() => reject(new Error(`it ended (${signal ?? `exit ${code}`}) before it was ready`)));
    });
    child.stdout?.setEncoding("utf8").on("data", (part: string) => {
      text += part;
      const end = text.indexOf("\n");
      if (end >= 0) settle(() => resolve(text.slice(0, end)));
      else if (text.length > MAX_READY_LINE)
        settle(() => reject(new Error("it did not report that it is ready")));
    });
  });
}

function describeStartError(anchorPath: string, cause: unknown): string {
  const code = errnoCode(cause);
  if (code === "EACCES")
    return `${anchorPath} may not be executed; no run can be started. Check its mode and that its file system is not mounted noexec`;
  if (code === "ENOENT")
    return `${anchorPath} is gone; no run can be started. Restart the supervisor to install it again`;
  if (code === "ENOEXEC")
    return `${anchorPath} was not built for this machine; no run can be started. Build it here with scripts/build-anchor.mjs`;
  return `the launcher ${anchorPath} could not be started: ${errorMessage(cause)}. No run was started`;
}

/** An anchor died before its run ended. The launcher kills the processes of the run. */
export interface AnchorLoss {
  readonly runId: string;
  readonly anchorPid: number;
  readonly status: LeaderStatus | null;
}

interface LauncherLocation {
  readonly anchorPath: string;
  readonly instanceDir: string;
  readonly instanceId: string;
}

const HOLD = encodeMessage("hold", {});
/** A key in hexadecimal digits; launchers of earlier versions wrote none. */
const MAX_MARKER_BYTES = 64;

/** The instance's launcher. It is started when first needed, and held until this supervisor closes. */
export class Launcher {
  readonly socketPath: string;
  readonly #location: LauncherLocation;
  readonly #onLoss: (loss: AnchorLoss) => void;
  /** Called when the connection to the launcher is lost or closed. */
  onReleased: () => void = () => undefined;
  /** Shared by concurrent first starts; null again after the launcher is lost. */
  #holding: Promise<MessageConnection> | null = null;
  #connection: MessageConnection | null = null;
  #protocol = PROTOCOL;
  #startsWarm = false;
  #closed = false;

  constructor(location: LauncherLocation, onLoss: (loss: AnchorLoss) => void) {
    this.#location = location;
    this.#onLoss = onLoss;
    this.socketPath = join(location.instanceDir, "launcher.sock");
  }

  /** Resolves with the connection to the launcher when it answers on `socketPath`. Rejects with AnchorUnusable. */
  hold(): Promise<MessageConnection> {
    if (this.#holding !== null) return this.#holding;
    const holding = this.#connectOrStart();
    this.#holding = holding;
    holding.catch(() => {
      if (this.#holding === holding) this.#holding = null;
    });
    return holding;
  }

  /** Protocol version of the launcher and of the anchors it starts, which run the same binary. */
  get protocol(): number {
    return this.#protocol;
  }

  /** True while a launcher that accepts WARM is held. */
  get startsWarm(): boolean {
    return this.#connection !== null && this.#startsWarm;
  }

  /** False as soon as the connection is known to be lost. */
  isHeldBy(connection: MessageConnection): boolean {
    return this.#connection === connection;
  }

  /**
   * Drops a launcher that no longer answers, so that the next `hold` connects again. A launcher that has replaced it
   * stays.
   */
  release(connection: MessageConnection): void {
    if (this.#connection !== connection) return;
    this.#connection = null;
    this.#holding = null;
    connection.close();
    this.onReleased();
  }

  /** A launcher that is not held exits with its last anchor. */
  close(): void {
    this.#closed = true;
    if (this.#connection !== null) this.release(this.#connection);
  }

  async #connectOrStart(): Promise<MessageConnection> {
    const found = await this.#connect();
    if (found !== null) return found;
    const { anchorPath, instanceDir, instanceId } = this.#location;
    await mkdir(join(instanceDir, "runs"), { recursive: true, mode: 0o700 });
    await removeStaleSocket(this.socketPath);
    await startLauncher(anchorPath, instanceDir, instanceId);
    const started = await this.#connect();
    if (started !== null) return started;
    throw new AnchorUnusable(
      anchorPath,
      `the launcher was started but does not listen on ${this.socketPath}; no run was started`,
    );
  }

  /** Null if no launcher listens. */
  async #connect(): Promise<MessageConnection | null> {
    if (this.#closed) throw this.#unusable("this supervisor has closed");
    let held: MessageConnection | null = null;
    const answer = await handshake({
      path: this.socketPath,
      frame: HOLD,
      expected: "launcher",
      timeoutMs: defaults.launcherReadyMs,
      onAnswer: ({ protocol, warm }, connection) => {
        held = connection;
        this.#protocol = Math.min(protocol, PROTOCOL);
        this.#startsWarm = warm && protocol === PROTOCOL;
        return this.#listen(connection);
      },
    });
    switch (answer.type) {
      case "answered":
        if (this.#protocol >= PREVIOUS_PROTOCOL) return held;
        throw this.#unusable(
          `it is of an old version (protocol ${this.#protocol}), and runs until its last run ends`,
        );
      case "closed":
        // A connection that ends without an answer is a launcher that is exiting with its last anchor.
        if (answer.error === null || isNotListening(answer.error) || errnoCode(answer.error) === "ECONNRESET")
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

  #listen(connection: MessageConnection): { message(message: AnchorMessage): void; closed(): void } {
    if (this.#closed) connection.close();
    this.#connection = connection;
    // The hold does not keep the process alive; its runs do.
    connection.keepAlive(false);
    return {
      message: (message) => {
        if (message.name === "anchorLost") this.#onLoss(toAnchorLoss(message));
      },
      closed: () => this.release(connection),
    };
  }

  #unusable(why: string): AnchorUnusable {
    const path = this.socketPath;
    return new AnchorUnusable(path, `the launcher on ${path} cannot be used: ${why}. No run was started`);
  }
}

function toAnchorLoss(message: MessageFields<"anchorLost">): AnchorLoss {
  return { runId: message.runId, anchorPid: message.anchorPid, status: decodeLeaderStatus(message) };
}

/** Removes a stale socket: on Windows the file with its key. Another kind of file was put there by a user. */
async function removeStaleSocket(path: string): Promise<void> {
  try {
    const found = await lstat(path);
    const isMarker = process.platform === "win32" && found.isFile() && found.size <= MAX_MARKER_BYTES;
    if (!found.isSocket() && !isMarker) {
      throw new AnchorUnusable(path, `${path} is not a socket; move it away, then runs can be started`);
    }
    await rm(path, { force: true });
  } catch (error) {
    if (errnoCode(error) !== "ENOENT") throw error;
  }
}
