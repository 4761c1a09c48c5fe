import { Approvals, type ApprovalsDependencies } from "../../../src/sessions/approvals.js";
import { Sessions, type SessionsDependencies } from "../../../src/sessions/sessions.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import type { Store } from "../../../src/store/store.js";
import type { Clock } from "../../../src/async/clock.js";
import { temporaryDirectory } from "../temporary-directory.js";

/** A clock that the test advances. */
export class TestClock implements Clock {
  #now = 0;
  readonly #timers = new Map<number, { readonly at: number; readonly call: () => void }>();
  #next = 0;
  /** The wall clock, which a test may set. */
  wallTime = 1_700_000_000_000;

  now(): number {
    return this.#now;
  }

  wall(): number {
    return this.wallTime;
  }

  jitter(ms: number): number {
    return ms;
  }

  setTimer(ms: number, call: () => void): { cancel(): void } {
    const id = this.#next++;
    this.#timers.set(id, { at: this.#now + ms, call });
    return { cancel: () => this.#timers.delete(id) };
  }

  sleep(): never {
    throw new Error("no code under test sleeps");
  }

  advance(ms: number): void {
    this.#now += ms;
    for (const [id, { at, call }] of [...this.#timers])
      if (at <= this.#now && this.#timers.delete(id)) call();
  }

  get timers(): number {
    return this.#timers.size;
  }
}

export interface SessionFixture extends AsyncDisposable {
  readonly path: string;
  readonly store: Store;
  readonly clock: TestClock;
  readonly approvals: Approvals;
  readonly sessions: Sessions;
}

export async function openSessionFixture(
  parts: Partial<SessionsDependencies> & Partial<Pick<ApprovalsDependencies, "onChange" | "onProblem">> = {},
): Promise<SessionFixture> {
  const directory = await temporaryDirectory();
  const path = `${directory.path}/store.sqlite`;
  const store = await openSqliteStore({ path });
  const clock = new TestClock();
  const common = {
    store,
    clock,
    gatewayInstanceId: "in_gateway",
    onProblem: (message: string) => {
      throw new Error(message);
    },
    ...parts,
  };
  const approvals = new Approvals(common);
  const sessions = new Sessions({
    a2aPolicy: { enabled: false, allow: [] },
    ...common,
    approvals,
  });
  return {
    path,
    store,
    clock,
    approvals,
    sessions,
    async [Symbol.asyncDispose]() {
      await approvals[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}
