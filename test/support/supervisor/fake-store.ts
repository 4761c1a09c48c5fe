import { LeaseLost, RunExists } from "../../../src/errors.js";
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
import { applyRunChange, newRunRecord } from "../../../src/store/runs/apply-change.js";

/** A store in memory that records what a supervisor writes, in order. */
export class FakeStore implements RunStore {
  readonly shared = false;
  readonly generation = 1;
  readonly runs = new Map<string, RunRecord>();
  readonly events: RunEvent[] = [];
  /** Every write that succeeded: `insert`, `gated`, `running`, … */
  readonly log: string[] = [];
  /** Every write rejects with this while it is set. */
  failing: Error | null = null;
  /** The store's clock. A lease of length n expires at n. */
  time = 0;
  /** Called before each write; may set `failing`, or act as another supervisor. */
  beforeWrite: (what: string) => void = () => undefined;

  async insertRun(
    run: NewRun,
    leaseMs: number,
    events: readonly NewRunEvent[] = [],
    gated?: GatedRunChange,
  ): Promise<Lease> {
    this.#write(gated === undefined ? "insert" : "insert gated");
    if (this.runs.has(run.runId)) throw new RunExists(run.runId);
    const { runId, ownerInstanceId, leaseEpoch } = run;
    this.runs.set(runId, newRunRecord(run, leaseMs, gated));
    this.#append(events);
    return { runId, ownerInstanceId, epoch: leaseEpoch };
  }

  async saveRun(lease: Lease, change: RunChange, events: readonly NewRunEvent[] = []): Promise<boolean> {
    this.#write(change.to);
    const run = this.runs.get(lease.runId);
    if (run?.state === "exited") return false;
    if (run === undefined || run.leaseEpoch !== lease.epoch || run.ownerInstanceId !== lease.ownerInstanceId)
      throw new LeaseLost(lease.runId, lease.epoch);
    this.runs.set(lease.runId, applyRunChange(run, change));
    this.#append(events);
    return true;
  }

  async finalizeRun(
    lease: Lease,
    end: TerminalRunChange,
    events: readonly NewRunEvent[] = [],
  ): Promise<RunRecord> {
    await this.saveRun(lease, end, events);
    return this.runs.get(lease.runId) as RunRecord;
  }

  async acquireLease(claim: LeaseRequest, events: readonly NewRunEvent[] = []): Promise<Lease | null> {
    this.#write("claim");
    const { runId, from, ownerInstanceId, epoch, expiredForMs } = claim;
    const run = this.runs.get(runId);
    if (run === undefined || run.state === "exited") return null;
    if (run.ownerInstanceId !== from.ownerInstanceId || run.leaseEpoch !== from.epoch) return null;
    if (expiredForMs !== null && run.leaseExpiresAt > this.time - expiredForMs) return null;
    this.runs.set(runId, { ...run, ownerInstanceId, leaseEpoch: epoch });
    this.#append(events);
    return { runId, ownerInstanceId, epoch };
  }

  async restoreRun(run: RunRecord, _leaseMs: number, events: readonly NewRunEvent[] = []): Promise<boolean> {
    this.#write("restore");
    const known = this.runs.get(run.runId);
    if (known !== undefined && (known.state === "exited" || known.leaseEpoch > run.leaseEpoch)) return false;
    this.runs.set(run.runId, run);
    this.#append(events);
    return true;
  }

  async eventsReach(): Promise<null> {
    return null;
  }

  async renewLeases(ownerInstanceId: string): Promise<number> {
    this.#write("renew");
    return [...this.runs.values()].filter((run) => run.ownerInstanceId === ownerInstanceId).length;
  }

  async acquireAndFinalizeRun(
    claim: LeaseRequest,
    end: TerminalRunChange,
    events: readonly NewRunEvent[] = [],
  ): Promise<boolean> {
    const lease = await this.acquireLease(claim);
    return lease !== null && this.saveRun(lease, end, events);
  }

  async listUnattendedRuns(ownerInstanceId: string, { bootId }: LocalScope): Promise<readonly RunRecord[]> {
    return [...this.runs.values()].filter(
      (run) =>
        run.state !== "exited" &&
        (run.ownerInstanceId === ownerInstanceId || run.bootId !== bootId || run.leaseExpiresAt <= this.time),
    );
  }

  async listOwnedRunIds(ownerInstanceId: string): Promise<readonly string[]> {
    return [...this.runs.values()]
      .filter((run) => run.ownerInstanceId === ownerInstanceId && run.state !== "exited")
      .map(({ runId }) => runId);
  }

  async hideRuns(runIds: readonly string[], at: number): Promise<number> {
    const shown = runIds
      .flatMap((runId) => this.runs.get(runId) ?? [])
      .filter((run) => run.hiddenAt === null);
    for (const run of shown) this.runs.set(run.runId, { ...run, hiddenAt: at });
    return shown.length;
  }

  async deleteRuns(runIds: readonly string[]): Promise<number> {
    return runIds.filter((runId) => this.runs.get(runId)?.state === "exited" && this.runs.delete(runId))
      .length;
  }

  async countEndedRuns(): Promise<number> {
    return [...this.runs.values()].filter(({ state }) => state === "exited").length;
  }

  async getRun(runId: string): Promise<RunRecord | null> {
    return this.runs.get(runId) ?? null;
  }

  async findRuns(prefix: string, limit: number): Promise<readonly RunRecord[]> {
    return [...this.runs.values()].filter(({ runId }) => runId.startsWith(prefix)).slice(0, limit);
  }

  async listRuns({ states, ownerInstanceId }: RunFilter): Promise<readonly RunRecord[]> {
    return [...this.runs.values()].filter(
      (run) =>
        (states === undefined || states.includes(run.state)) &&
        (ownerInstanceId === undefined || run.ownerInstanceId === ownerInstanceId),
    );
  }

  async listEvents({ runId, newestFirst, limit }: EventFilter): Promise<readonly RunEvent[]> {
    const found = this.events.filter((event) => runId === undefined || event.runId === runId);
    return (newestFirst === true ? found.toReversed() : found).slice(0, limit);
  }

  async appendEvents(events: readonly NewRunEvent[]): Promise<void> {
    this.#write("events");
    this.#append(events);
  }

  async now(): Promise<number> {
    return this.time;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.failing = new Error("the store is closed");
  }

  eventTypes(runId: string): string[] {
    return this.events.filter((event) => event.runId === runId).map(({ type }) => type);
  }

  #write(what: string): void {
    this.beforeWrite(what);
    if (this.failing !== null) throw this.failing;
    this.log.push(what);
  }

  #append(events: readonly NewRunEvent[]): void {
    for (const event of events) this.events.push({ ...event, seq: this.events.length + 1 });
  }
}
