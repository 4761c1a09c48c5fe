import type { StreamName } from "../anchor/host-interface.js";
import { defaults } from "../defaults.js";
import {
  BadInput,
  type InstanceTaken,
  NotSteering,
  RunNotFound,
  StoreAway,
  SupervisorClosed,
} from "../errors.js";
import type { RunEvent } from "../model/run-event.js";
import { OPEN_RUN_STATES, type RunRecord } from "../model/run.js";
import type { EventFilter, RunFilter } from "../store/runs/contract.js";
import { adoptProcess, convertToService } from "./adopt.js";
import type {
  AdoptedProcess,
  CommandInput,
  OutputChunk,
  Readiness,
  ReconcileScope,
  Reconciliation,
  Retained,
  Retention,
  Run,
  RunList,
  RunStopResult,
  SpawnOptions,
  StoreWriteStatus,
  Supervisor,
} from "./api.js";
import { type BackgroundDuties, createContext, type SupervisorDependencies } from "./create-context.js";
import { reconcile, type ReconcileOptions, type ReconcileResult } from "./reconcile/reconcile.js";
import { UnreachableTracker } from "./reconcile/unreachable.js";
import { applyRetention, stateDirectoryFilter } from "./retention.js";
import { runHandle } from "./run-handle.js";
import type { AdoptOptions, CancelOptions, ReadOptions, ReadyOptions } from "./check-options.js";
import { flushWaitingWrites, RunReader } from "./run-reader.js";
import { awaitRunEnds, closeRun, detachAll, detachRun } from "./run/stop-and-detach.js";
import type { LiveRun, SupervisorContext } from "./run/live-run.js";
import { awaitReady, endedBeforeReady } from "./run/readiness.js";
import { spawn } from "./spawn/spawn.js";
import { stopRun } from "./stop/stop.js";

/** Creates a supervisor. It owns the given store and host and disposes of them when it closes. */
export function createSupervisor(dependencies: SupervisorDependencies): Supervisor {
  return new DefaultSupervisor(dependencies);
}

class DefaultSupervisor implements Supervisor {
  readonly instanceId: string;
  readonly home: string;
  readonly #dependencies: SupervisorDependencies;
  readonly #context: SupervisorContext;
  readonly #duties: BackgroundDuties;
  readonly #reader: RunReader;
  readonly #unreachable = new UnreachableTracker();
  /** Background work. Only `close` waits for it. */
  readonly #work = new Set<Promise<unknown>>();
  readonly #spawns = new Set<Promise<unknown>>();
  /** One pass at a time: two passes would decide on the same evidence. */
  #reconciling: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | null = null;

  constructor(dependencies: SupervisorDependencies) {
    const { context, duties } = createContext(
      dependencies,
      (error) => this.#onInstanceTaken(error),
      (work) => void trackUntilSettled(this.#work, work),
    );
    this.#dependencies = dependencies;
    this.instanceId = dependencies.instanceId;
    this.home = dependencies.home;
    this.#context = context;
    this.#duties = duties;
    this.#reader = new RunReader(context);
    duties.leases.start();
    duties.incarnation.start();
  }

  /** Another process has taken this instance over: detach from all runs and write nothing. */
  #onInstanceTaken(error: InstanceTaken): void {
    // A run that is being started is released as soon as it exists.
    this.#context.closing ??= { actor: null };
    for (const live of [...this.#context.runs.values()]) detachRun(live, error);
    void this.#duties.leases.stop();
    this.#context.report({ runId: null, message: error.message, cause: error });
    this.#dependencies.onTaken?.(error);
  }

  async spawn(input: CommandInput, options: SpawnOptions = {}): Promise<Run> {
    this.#assertOpen("nothing was recorded or started");
    return runHandle(await trackUntilSettled(this.#spawns, spawn(this.#context, input, options)));
  }

  get held(): number {
    return this.#context.runs.size;
  }

  runs(): readonly Run[] {
    return [...this.#context.runs.values()].map(runHandle);
  }

  run(runId: string): Run | null {
    const live = this.#context.runs.get(runId);
    return live === undefined ? null : runHandle(live);
  }

  async recover(): Promise<readonly Run[]> {
    return (await this.#reconcile({ own: true })).acquired.map(runHandle);
  }

  async reconcile(scope: ReconcileScope = {}): Promise<Reconciliation> {
    const { decisions, acquired: taken } = await this.#reconcile(scope);
    return { decisions, runs: taken.map(runHandle) };
  }

  async holdOn(): Promise<number> {
    const { keepaliveLinks } = this.#dependencies;
    await this.#assertCurrent();
    await keepaliveLinks?.attachAll((runId) => this.#context.runs.has(runId));
    return keepaliveLinks?.size ?? 0;
  }

  async retain(limits?: Partial<Retention>): Promise<Retained> {
    this.#assertOpen("nothing was removed");
    return trackUntilSettled(this.#work, applyRetention(this.#context, limits));
  }

  async stop(runId: string, options?: CancelOptions): Promise<RunStopResult> {
    this.#assertOpen("nothing was stopped");
    return stopRun(this.#context, runId, (id) => this.getRun(id), options);
  }

  async hide(runIds: readonly string[]): Promise<number> {
    this.#assertOpen("nothing was hidden");
    return this.#context.store.hideRuns(runIds, this.#context.clock.wall());
  }

  async ready(runId: string, options?: ReadyOptions): Promise<Readiness> {
    this.#assertOpen("nothing was waited for");
    const live = this.#context.runs.get(runId);
    if (live !== undefined) return awaitReady(live, options);
    const record = await this.#context.store.getRun(runId);
    return record?.state === "exited"
      ? endedBeforeReady(this.#context, record)
      : awaitReady(await this.#requireHeldRun(runId), options);
  }

  async adoptRun(runId: string, options?: AdoptOptions): Promise<RunRecord> {
    this.#assertOpen("nothing was changed");
    return convertToService(await this.#requireHeldRun(runId), options);
  }

  async adoptProcess(pid: number, options?: Pick<AdoptOptions, "actor">): Promise<AdoptedProcess> {
    this.#assertOpen("nothing was changed");
    return trackUntilSettled(this.#spawns, adoptProcess(this.#context, pid, options));
  }

  async getRun(runId: string): Promise<RunRecord | null> {
    return this.#reader.getRun(runId);
  }

  async readOutput(run: string | RunRecord, stream: StreamName, options?: ReadOptions): Promise<OutputChunk> {
    return this.#reader.readOutput(run, stream, options);
  }

  async listRunsOrLocal(filter?: RunFilter, withinMs?: number): Promise<RunList> {
    return this.#reader.listRunsOrLocal(filter, withinMs);
  }

  async listRuns(filter: RunFilter = {}): Promise<readonly RunRecord[]> {
    flushWaitingWrites(this.#context);
    return this.#context.store.listRuns(filter);
  }

  writes(): StoreWriteStatus {
    const { storeBreaker, runs } = this.#context;
    const backlog = [...runs.values()].reduce((total, { writeQueue }) => total + writeQueue.pending, 0);
    return {
      // A refusal without a waiting write belongs to a run that this supervisor has released since.
      refusal: (backlog > 0 ? storeBreaker.lastError : null) ?? this.#duties.leases.lastError,
      backlog,
      renewalMs: this.#duties.leases.sinceRenewalMs,
    };
  }

  async listEvents(filter: EventFilter = {}): Promise<readonly RunEvent[]> {
    flushWaitingWrites(this.#context);
    return this.#context.store.listEvents(filter);
  }

  async scope(): Promise<Pick<RunFilter, "ofState">> {
    const { store, host, stateId } = this.#context;
    return stateDirectoryFilter(store, host, stateId);
  }

  async eventsReach(): Promise<number | null> {
    return this.#context.store.eventsReach();
  }

  close(options: { readonly leaveRuns?: boolean; readonly actor?: string } = {}): Promise<void> {
    this.#closing ??= this.#close(options.leaveRuns ?? false, options.actor ?? this.#context.actor);
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #reconcile(scope: ReconcileOptions): Promise<ReconcileResult> {
    this.#assertOpen("nothing was reconciled");
    const pass = this.#reconciling.then(async () => {
      this.#assertOpen("nothing was reconciled");
      await this.#assertCurrent();
      return reconcile(this.#context, this.#unreachable, scope).catch((error: unknown) =>
        this.#keepAliveWhileStoreAway(error),
      );
    });
    this.#reconciling = pass.catch(() => undefined);
    return trackUntilSettled(this.#work, pass);
  }

  async #assertCurrent(): Promise<void> {
    const { incarnation } = this.#duties;
    if (!(await incarnation.isCurrent()) && incarnation.taken !== null) throw incarnation.taken;
  }

  async #keepAliveWhileStoreAway(error: unknown): Promise<never> {
    if (error instanceof StoreAway) {
      this.#unreachable.recordBlindPass();
      await this.holdOn();
    }
    throw error;
  }

  /** Throws unless this supervisor owns the run. */
  async #requireHeldRun(runId: string): Promise<LiveRun> {
    const live = this.#context.runs.get(runId);
    if (live !== undefined) return live;
    const record = await this.#context.store.getRun(runId);
    if (record === null) throw new RunNotFound(runId);
    throw record.state === "exited"
      ? new BadInput("runId", `run ${runId} has ended; nothing was changed`)
      : new NotSteering(runId, `${record.ownerInstanceId} owns it, not this supervisor`);
  }

  async #close(leaveRuns: boolean, actor: string): Promise<void> {
    const { store, host, runs } = this.#context;
    const closing = { actor: leaveRuns ? null : actor };
    this.#context.closing = closing;
    let left = leaveRuns ? runs.size : 0;
    for (const live of [...runs.values()]) closeRun(live, closing);
    await awaitRunEnds(this.#context);
    // A run that is just being started sees `closing` and stops; wait for it.
    await this.#context.clock.sleep(
      defaults.launcherReadyMs + defaults.closeSlackMs,
      Promise.allSettled(this.#spawns),
    );
    await awaitRunEnds(this.#context);
    left += detachAll(this.#context);
    this.#context.storeBreaker.dispose();
    await Promise.allSettled([...this.#spawns, ...this.#work]);
    left += detachAll(this.#context);
    this.#duties.incarnation.stop();
    this.#duties.anchorMonitor.stop();
    await this.#duties.leases.stop();
    left += await this.#countTakenOver();
    await host[Symbol.asyncDispose]();
    await store[Symbol.asyncDispose]();
    await this.#dependencies.onClosed?.(left);
  }

  /** Runs that were taken over still use this instance's directory, which must then be kept. */
  async #countTakenOver(): Promise<number> {
    if (this.#duties.incarnation.taken !== null) return 1;
    if (!this.#context.hasLostRuns) return 0;
    const open = await this.#context.store.listRuns({ states: OPEN_RUN_STATES }).catch(() => null);
    if (open === null) return 1;
    return open.filter(
      ({ originInstanceId, ownerInstanceId }) =>
        originInstanceId === this.instanceId && ownerInstanceId !== this.instanceId,
    ).length;
  }

  #assertOpen(consequence: string): void {
    const { taken } = this.#duties.incarnation;
    if (taken !== null) throw taken;
    if (this.#closing !== null) throw new SupervisorClosed(this.instanceId, consequence);
  }
}

function trackUntilSettled<T>(work: Set<Promise<unknown>>, promise: Promise<T>): Promise<T> {
  work.add(promise);
  const done = (): void => {
    work.delete(promise);
  };
  void promise.then(done, done);
  return promise;
}
