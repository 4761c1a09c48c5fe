import { LeaseLost, RunExists } from "../../../src/errors.js";
import type { NewRunEvent, RunEvent } from "../../../src/model/run-event.js";
import type { RunRecord } from "../../../src/model/run.js";
import type {
  EventFilter,
  GatedRunChange,
  Lease,
  LeaseRequest,
  NewRun,
  RunChange,
  TerminalRunChange,
  RunFilter,
  StateDirectoryScope,
} from "../../../src/store/runs/contract.js";
import { applyRunChange, newRunRecord } from "../../../src/store/runs/apply-change.js";

/** One committed change of one record. `before` is null for an insert. */
export interface RecordCommit {
  readonly by: "insert" | "save" | "claim" | "renew" | "restore";
  readonly before: RunRecord | null;
  readonly after: RunRecord;
}

/** Bugs to be found. */
export interface DatabaseBugs {
  readonly claimIgnoresEpoch?: boolean;
  readonly claimIgnoresExpiry?: boolean;
  readonly endsTwice?: boolean;
  /** The commit before GO leaves out the identity of the process. */
  readonly insertWithoutIdentity?: boolean;
}

/** All durable state, in memory. Every call is one transaction. Records are never changed, only replaced. */
export class SimulatedDatabase {
  readonly records = new Map<string, RunRecord>();
  events: RunEvent[] = [];
  readonly #clock: () => number;
  readonly #wall: () => number;
  readonly #flaws: DatabaseBugs;
  #seq = 0;
  /** Sees every commit in the moment it happens. */
  watch: (commit: RecordCommit) => void = () => undefined;
  watchEvent: (event: RunEvent) => void = () => undefined;

  constructor(clock: () => number, wall: () => number, flaws: DatabaseBugs = {}) {
    this.#clock = clock;
    this.#wall = wall;
    this.#flaws = flaws;
  }

  insertRun(
    run: NewRun,
    leaseMs: number,
    events: readonly NewRunEvent[],
    kept = Infinity,
    gated?: GatedRunChange,
  ): Lease {
    if (this.records.has(run.runId)) throw new RunExists(run.runId);
    const identity = this.#flaws.insertWithoutIdentity === true ? undefined : gated;
    const after = newRunRecord(run, this.#clock() + Math.ceil(leaseMs), identity);
    this.#commit({ by: "insert", before: null, after }, events, kept);
    return { runId: run.runId, ownerInstanceId: run.ownerInstanceId, epoch: run.leaseEpoch };
  }

  saveRun(lease: Lease, change: RunChange, events: readonly NewRunEvent[], kept = Infinity): boolean {
    const before = this.records.get(lease.runId);
    if (before?.state === "exited" && this.#flaws.endsTwice !== true) return false;
    const stale = before?.leaseEpoch !== lease.epoch || before.ownerInstanceId !== lease.ownerInstanceId;
    if (before === undefined || stale) throw new LeaseLost(lease.runId, lease.epoch);
    const after = { ...applyRunChange(before, change), updatedAt: this.#wall() };
    this.#commit({ by: "save", before, after }, events, kept);
    return true;
  }

  claimLease(claim: LeaseRequest, events: readonly NewRunEvent[], kept = Infinity): Lease | null {
    const { runId, from, ownerInstanceId, epoch, leaseMs, expiredForMs } = claim;
    if (epoch <= from.epoch) throw new Error(`epoch ${epoch} is not above ${from.epoch}`);
    const before = this.records.get(runId);
    if (before === undefined || before.state === "exited") return null;
    const replaced = before.ownerInstanceId !== from.ownerInstanceId || before.leaseEpoch !== from.epoch;
    if (replaced && this.#flaws.claimIgnoresEpoch !== true) return null;
    const healthy = expiredForMs !== null && before.leaseExpiresAt > this.#clock() - Math.ceil(expiredForMs);
    if (healthy && this.#flaws.claimIgnoresExpiry !== true) return null;
    const leaseExpiresAt = this.#clock() + Math.ceil(leaseMs);
    const after = { ...before, ownerInstanceId, leaseEpoch: epoch, leaseExpiresAt, updatedAt: this.#wall() };
    this.#commit({ by: "claim", before, after }, events, kept);
    return { runId, ownerInstanceId, epoch };
  }

  concludeRun(
    claim: LeaseRequest,
    end: TerminalRunChange,
    events: readonly NewRunEvent[],
    kept = Infinity,
  ): boolean {
    const lease = this.claimLease(claim, []);
    return lease !== null && this.saveRun(lease, end, events, kept);
  }

  restoreRun(run: RunRecord, leaseMs: number, events: readonly NewRunEvent[], kept = Infinity): boolean {
    const before = this.records.get(run.runId) ?? null;
    if (before !== null && (before.state === "exited" || before.leaseEpoch > run.leaseEpoch)) return false;
    const after = { ...run, leaseExpiresAt: this.#clock() + Math.ceil(leaseMs) };
    this.#commit({ by: "restore", before, after }, events, kept);
    return true;
  }

  listUnattended(ownerInstanceId: string, bootId: string): readonly RunRecord[] {
    return [...this.records.values()].filter(
      (each) =>
        each.state !== "exited" &&
        (each.ownerInstanceId === ownerInstanceId ||
          each.leaseExpiresAt <= this.#clock() ||
          each.bootId !== bootId),
    );
  }

  renewLeases(ownerInstanceId: string, leaseMs: number): number {
    const mine = [...this.records.values()].filter(
      (each) => each.ownerInstanceId === ownerInstanceId && each.state !== "exited",
    );
    const leaseExpiresAt = this.#clock() + Math.ceil(leaseMs);
    for (const before of mine)
      this.#commit({ by: "renew", before, after: { ...before, leaseExpiresAt } }, []);
    return mine.length;
  }

  heldRuns(ownerInstanceId: string): readonly string[] {
    return [...this.records.values()]
      .filter((each) => each.ownerInstanceId === ownerInstanceId && each.state !== "exited")
      .map(({ runId }) => runId);
  }

  getRun(runId: string): RunRecord | null {
    return this.records.get(runId) ?? null;
  }

  findRuns(prefix: string, limit: number): readonly RunRecord[] {
    return [...this.records.values()].filter(({ runId }) => runId.startsWith(prefix)).slice(0, limit);
  }

  listRuns(filter: RunFilter): readonly RunRecord[] {
    const {
      states,
      ownerInstanceId,
      runIds,
      hostIds,
      ofState,
      notFrom = [],
      sessionKey,
      sessionId,
      agentId,
      endedBefore,
      silentForMs,
      hidden,
      labels = {},
      limit,
      maxBytes = Infinity,
    } = filter;
    // The newest insert first where the times are equal: not by id, which differs from one replay to the next.
    const found = [...this.records.values()]
      .toReversed()
      .filter(
        (each) =>
          states?.includes(each.state) !== false &&
          (ownerInstanceId === undefined || each.ownerInstanceId === ownerInstanceId) &&
          runIds?.includes(each.runId) !== false &&
          hostIds?.includes(each.hostId) !== false &&
          (ofState === undefined || isInScope(ofState, each)) &&
          !notFrom.includes(each.originInstanceId) &&
          (sessionKey === undefined || each.sessionKey === sessionKey) &&
          (sessionId === undefined || each.sessionId === sessionId) &&
          (hidden === undefined || each.hiddenAt === null) &&
          (silentForMs === undefined || each.leaseExpiresAt <= this.#clock() - silentForMs) &&
          (agentId === undefined || each.agentId === agentId) &&
          (endedBefore === undefined || (each.endedAt !== null && each.endedAt < endedBefore)) &&
          Object.entries(labels).every(([name, value]) => each.labels[name] === value),
      );
    found.sort((one, other) => other.createdAt - one.createdAt);
    if (endedBefore !== undefined) found.sort((one, other) => (one.endedAt ?? 0) - (other.endedAt ?? 0));
    let bytes = 0;
    const over = found.findIndex((run) => (bytes += JSON.stringify(run).length) > maxBytes);
    return found.slice(0, Math.min(limit ?? Infinity, over < 0 ? Infinity : Math.max(over, 1)));
  }

  listEvents(filter: EventFilter): readonly RunEvent[] {
    const { after = 0, runId, hostIds, stateId, limit, newestFirst } = filter;
    const found = this.events.filter((event) => {
      const run = this.records.get(event.runId);
      return (
        event.seq > after &&
        (runId === undefined || event.runId === runId) &&
        (hostIds === undefined || (run !== undefined && hostIds.includes(run.hostId))) &&
        (stateId === undefined || run?.stateId === stateId)
      );
    });
    return (newestFirst === true ? found.toReversed() : found).slice(0, limit);
  }

  appendEvents(events: readonly NewRunEvent[], kept = Infinity): void {
    for (const event of events) {
      const numbered = { ...event, seq: ++this.#seq };
      this.events.push(numbered);
      this.watchEvent(numbered);
    }
    if (this.events.length > kept) this.events.splice(0, this.events.length - kept);
  }

  hideRuns(runIds: readonly string[], at: number): number {
    const shown = runIds
      .flatMap((runId) => this.records.get(runId) ?? [])
      .filter((run) => run.hiddenAt === null);
    for (const run of shown) this.records.set(run.runId, { ...run, hiddenAt: at });
    return shown.length;
  }

  deleteRuns(runIds: readonly string[]): number {
    const gone = runIds.filter((runId) => this.records.get(runId)?.state === "exited");
    for (const runId of gone) this.records.delete(runId);
    this.events = this.events.filter(({ runId }) => !gone.includes(runId));
    return gone.length;
  }

  countEnded(filter: RunFilter): number {
    return this.listRuns({ ...filter, states: ["exited"] }).length;
  }

  now(): number {
    return this.#clock();
  }

  #commit(commit: RecordCommit, events: readonly NewRunEvent[], kept = Infinity): void {
    this.records.set(commit.after.runId, commit.after);
    this.watch(commit);
    this.appendEvents(events, kept);
  }
}

function isInScope({ stateId, instanceIds }: StateDirectoryScope, run: RunRecord): boolean {
  return run.stateId === null ? instanceIds.includes(run.originInstanceId) : run.stateId === stateId;
}
