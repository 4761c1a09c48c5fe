import { type FollowOptions, RowFollower } from "../../async/row-follower.js";
import { defaults } from "../../defaults.js";
import type { AcpTurn, AcpUpdate } from "../../model/acp/session-and-turn.js";
import type { AcpChange, AcpStore } from "../../store/acp/contract.js";

const PAGE_ROWS = 500;
/** Poll interval for updates that another gateway writes. */
const POLL_MS = 250;

/** Follows the updates of ACP sessions as they are written. */
export class UpdateFollower {
  readonly #store: AcpStore;
  readonly #isWrittenHere: (sessionId: string) => boolean;
  readonly #rows = new RowFollower();
  readonly #turnEnds = new RowFollower();

  constructor(store: AcpStore, isWrittenHere: (sessionId: string) => boolean) {
    this.#store = store;
    this.#isWrittenHere = isWrittenHere;
  }

  /** Called after a change of the session was written. Default: any change. */
  wake(sessionId: string, change?: AcpChange): void {
    this.#rows.wake(sessionId);
    const ends = change === undefined || change.turns?.some(({ set }) => set.state === "ended") === true;
    if (ends) this.#turnEnds.wake(sessionId);
  }

  close(): void {
    this.#rows.close();
    this.#turnEnds.close();
  }

  /** Updates after a sequence number. Ends with the session, with `close`, and when `signal` aborts. */
  async *follow(
    sessionId: string,
    after: number,
    signal: AbortSignal,
  ): AsyncGenerator<AcpUpdate, void, undefined> {
    const maxBytes = defaults.acpPageBytes;
    let last = after;
    const read = async () => {
      const closed = (await this.#store.getAcpSession(sessionId))?.state === "closed";
      const rows = await this.#store.listAcpUpdates({ sessionId, after: last, limit: PAGE_ROWS, maxBytes });
      return { rows, full: rows.length > 0, ended: closed && rows.length === 0 };
    };
    for await (const page of this.#rows.follow(sessionId, read, this.#options(sessionId, signal)))
      for (const update of page) {
        last = update.seq;
        yield update;
      }
  }

  /** The first result of `probe` that is not null, probed again after each update. Null: `signal` aborted first. */
  waitFor<T>(sessionId: string, probe: () => Promise<T | null>, signal: AbortSignal): Promise<T | null> {
    return this.#rows.waitFor(sessionId, probe, this.#options(sessionId, signal));
  }

  /** Resolves with the turn when it has ended. Null: `signal` aborted first. */
  waitForTurnEnd({ sessionId, turnId }: AcpTurn, signal: AbortSignal): Promise<AcpTurn | null> {
    const readEnded = async (): Promise<AcpTurn | null> => {
      const turn = await this.#store.getAcpTurn(turnId);
      return turn?.state === "ended" ? turn : null;
    };
    return this.#turnEnds.waitFor(sessionId, readEnded, this.#options(sessionId, signal));
  }

  #options(sessionId: string, signal: AbortSignal): FollowOptions {
    return { signal, pollMs: () => (this.#isWrittenHere(sessionId) ? null : POLL_MS) };
  }
}
