import type { Clock } from "../async/clock.js";
import { SerialQueue } from "../async/concurrency.js";
import { AcpNotHeld, StateUnusable } from "../errors.js";
import type { AcpSession } from "../model/acp/session-and-turn.js";
import type { AcpChange, AcpStore } from "../store/acp/contract.js";

interface SessionWriterDeps {
  readonly store: AcpStore;
  readonly clock: Clock;
  readonly onWritten: (sessionId: string, change: AcpChange) => void;
  readonly onProblem: (message: string, cause: unknown) => void;
}

const FIRST_RETRY_MS = 20;
const LONGEST_RETRY_MS = 1_000;

/**
 * Writes the row of a session, one change after the other; a change is built when its turn comes. A failed write is
 * retried without limit: meanwhile nothing is acknowledged, so the agent is held back.
 */
export class SessionWriter {
  readonly #deps: SessionWriterDeps;
  #row: AcpSession;
  readonly #writes = new SerialQueue();
  #detached = false;

  constructor(row: AcpSession, deps: SessionWriterDeps) {
    this.#row = row;
    this.#deps = deps;
  }

  /** As last written. */
  get row(): AcpSession {
    return this.#row;
  }

  /**
   * Writes the change that `build` returns (null: none), then calls `done` synchronously. False: not written, because a
   * turn or a request was not in the expected state. Rejects with AcpNotHeld if another gateway has the session. After
   * `detach` the promise stays pending, so that the caller does not continue.
   */
  commit(build: () => AcpChange | null, done: () => void = () => undefined): Promise<boolean> {
    return this.#writes.run(() => this.#write(build, done));
  }

  /** Resolves when the changes so far are written or refused. */
  async idle(): Promise<void> {
    await this.#writes.idle();
  }

  /** Finishes the current write; nothing is written after that. */
  async detach(): Promise<void> {
    this.#detached = true;
    await Promise.race([this.#writes.idle(), this.#deps.clock.sleep(LONGEST_RETRY_MS)]);
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
        // The connection to the store may have broken after the write.
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
          onProblem(`ACP session ${sessionId} could not be written; retrying`, cause);
        await clock.sleep(pause);
      }
    }
  }

  /** This process is the only writer, so a version one higher is the change whose result was unknown. */
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
