import type { NewRunEvent, RunEvent } from "../../../src/model/run-event.js";
import type { RunRecord } from "../../../src/model/run.js";
import type {
  LocalScope,
  EventFilter,
  GatedRunChange,
  Lease,
  LeaseRequest,
  NewRun,
  RunChange,
  TerminalRunChange,
  RunFilter,
  RunStore,
} from "../../../src/store/runs/contract.js";
import type { SimulatedDatabase } from "./database.js";

export interface StoreCall {
  readonly name: keyof RunStore;
  readonly writes: boolean;
}

/** How a question gets to the database and its answer back. */
type StoreTransport = <T>(question: StoreCall, work: () => T) => Promise<T>;

/** One supervisor's access to the database. */
export class SimulatedStore implements RunStore {
  readonly shared: boolean;
  readonly generation = 1;
  readonly #database: SimulatedDatabase;
  readonly #ask: StoreTransport;
  readonly #eventsKept: number;

  constructor(
    database: SimulatedDatabase,
    ask: StoreTransport,
    {
      shared = false,
      eventsKept = Infinity,
    }: { readonly shared?: boolean; readonly eventsKept?: number } = {},
  ) {
    this.shared = shared;
    this.#database = database;
    this.#ask = ask;
    this.#eventsKept = eventsKept;
  }

  async insertRun(
    run: NewRun,
    leaseMs: number,
    events: readonly NewRunEvent[] = [],
    gated?: GatedRunChange,
  ): Promise<Lease> {
    await this.#write("insertRun", () =>
      this.#database.insertRun(run, leaseMs, events, this.#eventsKept, gated),
    );
    // Also the answer of the planted bug that answers before it has written.
    return { runId: run.runId, ownerInstanceId: run.ownerInstanceId, epoch: run.leaseEpoch };
  }

  saveRun(lease: Lease, change: RunChange, events: readonly NewRunEvent[] = []): Promise<boolean> {
    return this.#write("saveRun", () => this.#database.saveRun(lease, change, events, this.#eventsKept));
  }

  finalizeRun(lease: Lease, end: TerminalRunChange, events: readonly NewRunEvent[] = []): Promise<RunRecord> {
    return this.#write("finalizeRun", () => {
      this.#database.saveRun(lease, end, events, this.#eventsKept);
      return this.#database.getRun(lease.runId) as RunRecord;
    });
  }

  acquireLease(claim: LeaseRequest, events: readonly NewRunEvent[] = []): Promise<Lease | null> {
    return this.#write("acquireLease", () => this.#database.claimLease(claim, events, this.#eventsKept));
  }

  acquireAndFinalizeRun(
    claim: LeaseRequest,
    end: TerminalRunChange,
    events: readonly NewRunEvent[] = [],
  ): Promise<boolean> {
    return this.#write("acquireAndFinalizeRun", () =>
      this.#database.concludeRun(claim, end, events, this.#eventsKept),
    );
  }

  restoreRun(run: RunRecord, leaseMs: number, events: readonly NewRunEvent[] = []): Promise<boolean> {
    return this.#write("restoreRun", () => this.#database.restoreRun(run, leaseMs, events, this.#eventsKept));
  }

  listUnattendedRuns(ownerInstanceId: string, { bootId }: LocalScope): Promise<readonly RunRecord[]> {
    return this.#read("listUnattendedRuns", () => this.#database.listUnattended(ownerInstanceId, bootId));
  }

  renewLeases(ownerInstanceId: string, leaseMs: number): Promise<number> {
    return this.#write("renewLeases", () => this.#database.renewLeases(ownerInstanceId, leaseMs));
  }

  listOwnedRunIds(ownerInstanceId: string): Promise<readonly string[]> {
    return this.#read("listOwnedRunIds", () => this.#database.heldRuns(ownerInstanceId));
  }

  getRun(runId: string): Promise<RunRecord | null> {
    return this.#read("getRun", () => this.#database.getRun(runId));
  }

  findRuns(prefix: string, limit: number): Promise<readonly RunRecord[]> {
    return this.#read("findRuns", () => this.#database.findRuns(prefix, limit));
  }

  listRuns(filter: RunFilter): Promise<readonly RunRecord[]> {
    return this.#read("listRuns", () => this.#database.listRuns(filter));
  }

  listEvents(filter: EventFilter): Promise<readonly RunEvent[]> {
    return this.#read("listEvents", () => this.#database.listEvents(filter));
  }

  appendEvents(events: readonly NewRunEvent[]): Promise<void> {
    return this.#write("appendEvents", () => this.#database.appendEvents(events, this.#eventsKept));
  }

  async eventsReach(): Promise<null> {
    return null;
  }

  hideRuns(runIds: readonly string[], at: number): Promise<number> {
    return this.#write("hideRuns", () => this.#database.hideRuns(runIds, at));
  }

  deleteRuns(runIds: readonly string[]): Promise<number> {
    return this.#write("deleteRuns", () => this.#database.deleteRuns(runIds));
  }

  countEndedRuns(filter: RunFilter = {}): Promise<number> {
    return this.#read("countEndedRuns", () => this.#database.countEnded(filter));
  }

  now(): Promise<number> {
    return this.#read("now", () => this.#database.now());
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  #write<T>(name: keyof RunStore, work: () => T): Promise<T> {
    return this.#ask({ name, writes: true }, work);
  }

  #read<T>(name: keyof RunStore, work: () => T): Promise<T> {
    return this.#ask({ name, writes: false }, work);
  }
}
