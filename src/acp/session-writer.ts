import { AcpNotHeld, StateUnusable } from "../errors.js";
import type { AcpSession } from "../model/acp.js";
import type { AcpChange, AcpStore } from "../store/acp/store.js";
import type { Clock } from "../async/clock.js";

export interface SessionWriterDeps {
  readonly store: AcpStore;
  readonly clock: Clock;
  /** Something was written. */
  readonly onWritten: (sessionId: string, change: AcpChange) => void;
  readonly onProblem: (message: string, cause: unknown) => void;
}

const FIRST_RETRY_MS = 20;
const LONGEST_RETRY_MS = 1_000;

/**
 * A session's row, written by one after the other: what a change is made of is looked at when it is its turn. A store
 * that fails is tried again for as long as it takes: meanwhile nothing is let go of, and the agent is held back.
 */
export class SessionWriter {
  readonly #deps: SessionWriterDeps;
  #row: AcpSession;
  #lastWrite: Promise<unknown> = Promise.resolve();
  #detached = false;

  constructor(row: AcpSession, deps: SessionWriterDeps) {
    this.#row = row;
    this.#deps = deps;
  }

  /** As it was written last. */
  get row(): AcpSession {
    return this.#row;
  }

  /**
   * `build` says what to write; null: nothing. `done` is called in the same breath. False: not written, because a turn
   * or a question was not in the state that was thought. Rejects with AcpNotHeld when another gateway has the session.
   * Once this process leaves the session to the next, it never resolves: whoever waits must not go on.
   */
  commit(build: () => AcpChange | null, done: () => void = () => undefined): Promise<boolean> {
    const written = this.#lastWrite.then(() => this.#write(build, done));
    this.#lastWrite = written.catch(() => undefined);
    return written;
  }

  /** What is under way is finished; nothing is written after that. */
  async detach(): Promise<void> {
    this.#detached = true;
    await Promise.race([this.#lastWrite, this.#deps.clock.sleep(LONGEST_RETRY_MS)]);
  }

  async #write(build: () => AcpChange | null, done: () => void): Promise<boolean> {
    const { store, clock, onWritten, onProblem } = this.#deps;
    let change: AcpChange | null = null;
    for (let pause = FIRST_RETRY_MS; ; pause = Math.min(2 * pause, LONGEST_RETRY_MS)) {
      if (this.#detached) await new Promise<never>(() => undefined);
      if (this.#row.state === "closed") return false;
      change ??= build();
      if (change === null) return false;
      const { sessionId, gatewayInstanceId } = this.#row;
      try {
        // A connection may have broken with the answer on its way.
        const applied = pause > FIRST_RETRY_MS && (await this.#wasWritten());
        const seq = applied
          ? this.#row.seq
          : await store.commitAcpChange(sessionId, gatewayInstanceId, change);
        if (seq === null) return await this.#explainRejected();
        if (!applied) this.#row = { ...this.#row, ...change.session, seq, version: this.#row.version + 1 };
        done();
        onWritten(sessionId, change);
        return true;
      } catch (cause) {
        if (!(cause instanceof StateUnusable)) throw cause;
        if (pause === FIRST_RETRY_MS)
          onProblem(`the ACP session ${sessionId} could not be written; trying again`, cause);
        await clock.sleep(pause);
      }
    }
  }

  /** Nobody else writes it: one version more is the change that was not known to be written. */
  async #wasWritten(): Promise<boolean> {
    const { sessionId, gatewayInstanceId, version } = this.#row;
    const found = await this.#deps.store.getAcpSession(sessionId);
    if (found?.gatewayInstanceId !== gatewayInstanceId || found.version !== version + 1) return false;
    this.#row = found;
    return true;
  }

  async #explainRejected(): Promise<false> {
    const { sessionId, gatewayInstanceId } = this.#row;
    const found = await this.#deps.store.getAcpSession(sessionId);
    if (found?.gatewayInstanceId === gatewayInstanceId) return false;
    throw new AcpNotHeld(found ?? { ...this.#row, gatewayInstanceId: "none" });
  }
}
