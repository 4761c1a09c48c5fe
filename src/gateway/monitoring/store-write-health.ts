import { ThrottledCheck } from "../../async/throttled-check.js";
import { defaults } from "../../defaults.js";
import { errorMessage } from "../../home/errno.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { Store } from "../../store/store.js";
import type { Supervisor } from "../../supervisor/api.js";

/** True if the store can be written, as of the last attempt. */
export interface StoreWriteHealth {
  readonly writable: boolean;
  /** Why the last write was refused; null: it was accepted. */
  readonly refusal: string | null;
  /** Since when, in wall-clock milliseconds. */
  readonly since: number | null;
  /** Writes of runs that wait to be repeated. */
  readonly backlog: number;
  /** Time since the leases of this gateway's runs were last renewed. */
  readonly renewalMs: number;
}

interface StoreHealthDeps {
  readonly store: Pick<Store, "appendEvents" | "unwritableTables">;
  readonly supervisor: Pick<Supervisor, "writes">;
  readonly instanceId: string;
  readonly onProblem: (message: string, cause: unknown) => void;
}

/**
 * Tracks whether the store can be written. A store that can be read but not written looks healthy to every command that
 * reads. So the status, the metrics, `doctor` and the log report it at once, and an event records it when it is over.
 */
export class StoreHealth {
  readonly #deps: StoreHealthDeps;
  #refusal: unknown = null;
  #since: number | null = null;
  /** The event of the last period without writes, until it is recorded. */
  #pendingEvent: NewRunEvent | null = null;
  /** A heartbeat does not detect a missing privilege on another table. */
  readonly #privileges = new ThrottledCheck(defaults.privilegeCheckMs, () => this.#assertTablesWritable());

  constructor(deps: StoreHealthDeps) {
    this.#deps = deps;
  }

  get(): StoreWriteHealth {
    const { backlog, renewalMs, refusal: ofRuns } = this.#deps.supervisor.writes();
    const refusal = ofRuns ?? this.#refusal;
    return {
      writable: refusal === null,
      refusal: refusal === null ? null : errorMessage(refusal),
      since: refusal === null ? null : (this.#since ?? Date.now()),
      backlog,
      renewalMs,
    };
  }

  /** Checks once. `write` writes to the store; its rejection is rethrown. */
  async check(write: () => Promise<void>): Promise<void> {
    try {
      await write();
      if (this.#refusal !== null) this.#privileges.wake();
      await this.#privileges.run();
      this.#refusal = null;
    } catch (error) {
      this.#refusal = error;
      this.#update();
      throw error;
    }
    this.#update();
    if (this.#pendingEvent === null) return;
    await this.#deps.store.appendEvents([this.#pendingEvent]);
    this.#pendingEvent = null;
  }

  async #assertTablesWritable(): Promise<boolean> {
    const refused = await this.#deps.store.unwritableTables();
    if (refused.length > 0) throw new Error(`the database user may not write to ${refused.join(", ")}`);
    return false;
  }

  #update(): void {
    const { writable, refusal, backlog } = this.get();
    if (!writable && this.#since === null) {
      this.#since = Date.now();
      const message = `the store cannot be written; nothing new is started, runs continue and can be stopped, and ${backlog} writes are waiting: ${refusal}`;
      this.#deps.onProblem(message, this.#refusal);
    }
    if (!writable) this.#pendingEvent = this.#event(refusal ?? "");
    else this.#since = null;
  }

  #event(why: string): NewRunEvent {
    const at = Date.now();
    const data = { by: this.#deps.instanceId, since: this.#since ?? at, until: at, why };
    return { runId: "", at, rootPid: null, descendants: 0, type: "store-unwritable", data };
  }
}
