import type { AnchorHost, StreamName } from "../anchor/host.js";
import type { InstanceHold } from "../anchor/instance/instance-hold.js";
import { type Clock, systemClock } from "../async/clock.js";
import { defaults } from "../defaults.js";
import {
  BadInput,
  type InstanceTaken,
  NotSteering,
  RunNotFound,
  StoreAway,
  SupervisorClosed,
} from "../errors.js";
import { newIncarnationId } from "../model/ids.js";
import type { RunEvent } from "../model/run-event.js";
import { OPEN_RUN_STATES, type RunRecord } from "../model/run.js";
import { listCopiedRuns, type RunCopy } from "../store/local-copy/run-copy.js";
import { withRunCopy } from "../store/local-copy/with-run-copy.js";
import type { EventFilter, RunFilter, RunStore } from "../store/runs/store.js";
import type {
  AdoptedProcess,
  AdoptOptions,
  CancelOptions,
  CommandInput,
  OutputChunk,
  Problem,
  Readiness,
  ReadOptions,
  ReadyOptions,
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
import { AnchorMonitor } from "./attach/anchor-monitor.js";
import { onLeaseMissing } from "./attach/reattach.js";
import { Incarnation } from "./lease/incarnation.js";
import type { KeepaliveLinks } from "./lease/keepalive-links.js";
import { LeaseRenewer } from "./lease/lease-renewer.js";
import { LocalFallback } from "./local-fallback.js";
import { runAddressOf } from "./reconcile/evidence.js";
import { reconcile, type ReconcileOptions, type ReconcileResult } from "./reconcile/reconcile.js";
import { UnreachableTracker } from "./reconcile/unreachable.js";
import { applyRetention, stateDirectoryFilter } from "./retention.js";
import { runHandle } from "./run-handle.js";
import { detachRun } from "./run/lifecycle.js";
import type { LiveRun, SupervisorContext } from "./run/live-run.js";
import { readOutput } from "./run/output.js";
import { awaitReady, endedBeforeReady } from "./run/readiness.js";
import { StoreCircuitBreaker } from "./run/store-circuit-breaker.js";
import { adoptProcess } from "./service/adopt-process.js";
import { convertToService } from "./service/convert-to-service.js";
import { spawn } from "./spawn/spawn.js";
import { awaitRunEnds, closeRun, detachAll } from "./stop/close.js";
import { stopRun } from "./stop/stop-run.js";

export interface SupervisorDependencies {
  readonly store: RunStore;
  /** For a store that others share, too: what it was told from here. */
  readonly localCopy?: RunCopy;
  /** Connections that keep its runs while the store is away. */
  readonly keepaliveLinks?: KeepaliveLinks;
  readonly host: AnchorHost;
  /** The locks of this instance, looked at while it works. */
  readonly locks?: Pick<InstanceHold, "check">;
  readonly clock?: Clock;
  readonly instanceId: string;
  /** Left out: a new one. */
  readonly incarnation?: string;
  readonly home: string;
  readonly stateId?: string;
  readonly actor?: string;
  readonly discardOutput?: boolean;
  readonly withheldEnv?: readonly string[];
  readonly onProblem?: (problem: Problem) => void;
  readonly onTaken?: (error: InstanceTaken) => void;
  /** After the last write, once: give back what the parts stand on. `left` runs have no end on record. */
  readonly onClosed?: (left: number) => Promise<void>;
}

/** A supervisor on the given parts; it owns them and disposes of them when it closes. */
export function createSupervisor(dependencies: SupervisorDependencies): Supervisor {
  return new DefaultSupervisor(dependencies);
}

class DefaultSupervisor implements Supervisor {
  readonly instanceId: string;
  readonly home: string;
  readonly #dependencies: SupervisorDependencies;
  readonly #context: SupervisorContext;
  /** Work nobody awaits but close(). */
  readonly #work = new Set<Promise<unknown>>();
  readonly #spawns = new Set<Promise<unknown>>();
  /** One at a time: two would decide on the same evidence. */
  #reconciling: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | null = null;
  readonly #localFallback: LocalFallback;

  constructor(dependencies: SupervisorDependencies) {
    const {
      localCopy = null,
      host,
      clock = systemClock,
      instanceId,
      home,
      stateId = null,
      actor = `supervisor:${instanceId}`,
      discardOutput = false,
      withheldEnv = [],
    } = dependencies;
    this.#dependencies = dependencies;
    this.instanceId = instanceId;
    this.home = home;
    this.#localFallback = new LocalFallback(clock);
    const report = (problem: Problem): void => {
      try {
        dependencies.onProblem?.(problem);
      } catch {
        // Whoever listens badly must not keep a run from being ended.
      }
    };
    const onCopyFailed = (runId: string, cause: unknown): void =>
      report({ runId, message: `run ${runId}: no copy of its record could be kept here`, cause });
    const store =
      localCopy === null ? dependencies.store : withRunCopy(dependencies.store, localCopy, onCopyFailed);
    const live: SupervisorContext["runs"] = new Map();
    const incarnation = new Incarnation({
      instanceId,
      checkLocks:
        dependencies.locks === undefined
          ? null
          : () => dependencies.locks?.check() ?? Promise.resolve("held"),
      clock,
      report,
      onTaken: (error) => this.#onInstanceTaken(error),
    });
    const leases = new LeaseRenewer({
      store,
      clock,
      instanceId,
      isCurrent: () => incarnation.isCurrent(),
      heldCount: () => live.size,
      onMissing: (known) => {
        for (const each of [...live.values()])
          if (!known.has(each.facts.runId)) this.#context.track(each.facts.runId, onLeaseMissing(each));
      },
      onError: (cause) =>
        report({ runId: null, message: "the leases could not be renewed; trying again", cause }),
    });
    this.#context = {
      clock,
      store,
      localCopy,
      host,
      instanceId,
      stateId,
      actor,
      discardOutput,
      withheldEnv,
      leases,
      incarnation,
      incarnationId: dependencies.incarnation ?? newIncarnationId(),
      anchorMonitor: new AnchorMonitor(clock, () => live.values()),
      storeBreaker: new StoreCircuitBreaker(clock, () => {
        // Writing works again: the right to steer need not wait for the next renewal.
        if (leases.fenced) void leases.renew();
      }),
      runs: live,
      inserting: new Set(),
      closing: null,
      hasLostRuns: false,
      // An earlier process may not have lived to see it.
      storeMayHaveRolledBack: true,
      comparedGeneration: 0,
      unreachable: new UnreachableTracker(),
      cleanedUp: new Set(),
      report,
      track: (runId, work) => {
        const told = work.catch((cause: unknown) =>
          report({ runId, message: `run ${runId}: ${messageOf(cause)}`, cause }),
        );
        void trackUntilSettled(this.#work, told);
      },
    };
    leases.start();
    incarnation.start();
  }

  /** Another process is this instance: control nothing, write nothing, leave every run alive. */
  #onInstanceTaken(error: InstanceTaken): void {
    const { runs: live, leases } = this.#context;
    // A run that is being started is released as soon as it exists.
    this.#context.closing ??= { actor: null };
    for (const each of [...live.values()]) detachRun(each, error);
    void leases.stop();
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
    const { store, localCopy } = this.#context;
    if (localCopy === null) return store.getRun(runId);
    // The ledger has every run of this state directory that is open or ended lately, so it can be read and stopped whatever the state of the store.
    return this.#localFallback.query<RunRecord | null>(
      () => store.getRun(runId),
      async () => (await localCopy.get(runId))?.record ?? null,
    );
  }

  async readOutput(runId: string, stream: StreamName, options?: ReadOptions): Promise<OutputChunk> {
    const live = this.#context.runs.get(runId);
    if (live !== undefined) return readOutput(this.#context.host, live.facts.address, stream, options);
    const record = await this.getRun(runId);
    if (record === null) throw new RunNotFound(runId);
    return readOutput(this.#context.host, runAddressOf(record), stream, options);
  }

  async listRunsOrLocal(filter: RunFilter = {}, withinMs: number = defaults.localListMs): Promise<RunList> {
    const { store, localCopy } = this.#context;
    if (localCopy === null) return { runs: await store.listRuns(filter), storeAway: null };
    return this.#localFallback.query<RunList>(
      async () => ({ runs: await store.listRuns(filter), storeAway: null }),
      async (why) => ({
        runs: await listCopiedRuns(localCopy, filter),
        storeAway: why === null ? "the store does not answer" : messageOf(why),
      }),
      withinMs,
    );
  }

  async listRuns(filter: RunFilter = {}): Promise<readonly RunRecord[]> {
    return this.#context.store.listRuns(filter);
  }

  writes(): StoreWriteStatus {
    const { storeBreaker, leases, runs: live } = this.#context;
    const pending = [...live.values()].map(({ writeQueue }) => writeQueue.pending);
    const backlog = pending.reduce((total, count) => total + count, 0);
    return {
      // A refusal without a waiting write belongs to a run that this supervisor has released since.
      refusal: (backlog > 0 ? storeBreaker.lastError : null) ?? leases.lastError,
      backlog,
      renewalMs: leases.sinceRenewalMs,
    };
  }

  async listEvents(filter: EventFilter = {}): Promise<readonly RunEvent[]> {
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
    this.#assertOpen("nothing was looked at");
    const pass = this.#reconciling.then(async () => {
      this.#assertOpen("nothing was looked at");
      await this.#assertCurrent();
      return reconcile(this.#context, scope).catch((error: unknown) => this.#keepAliveWhileStoreAway(error));
    });
    this.#reconciling = pass.catch(() => undefined);
    return trackUntilSettled(this.#work, pass);
  }

  async #assertCurrent(): Promise<void> {
    const { incarnation } = this.#context;
    if (!(await incarnation.isCurrent()) && incarnation.taken !== null) throw incarnation.taken;
  }

  async #keepAliveWhileStoreAway(error: unknown): Promise<never> {
    if (error instanceof StoreAway) {
      this.#context.unreachable.recordBlindPass();
      await this.holdOn();
    }
    throw error;
  }

  /** A run that this supervisor holds, or why it cannot be had. */
  async #requireHeldRun(runId: string): Promise<LiveRun> {
    const live = this.#context.runs.get(runId);
    if (live !== undefined) return live;
    const record = await this.#context.store.getRun(runId);
    if (record === null) throw new RunNotFound(runId);
    throw record.state === "exited"
      ? new BadInput("runId", `run ${runId} has ended; nothing was changed`)
      : new NotSteering(runId, `${record.ownerInstanceId} holds it, not this supervisor`);
  }

  async #close(leaveRuns: boolean, actor: string): Promise<void> {
    const { store, host, leases, runs: live } = this.#context;
    let left = 0;
    const closing = { actor: leaveRuns ? null : actor };
    this.#context.closing = closing;
    if (leaveRuns) left += live.size;
    for (const each of [...live.values()]) closeRun(each, closing);
    await awaitRunEnds(this.#context);
    // What was just being started closes itself as soon as it has a run; no process may slip through between.
    await this.#context.clock.sleep(
      defaults.launcherReadyMs + defaults.closeSlackMs,
      Promise.allSettled(this.#spawns),
    );
    await awaitRunEnds(this.#context);
    left += detachAll(this.#context);
    this.#context.storeBreaker.dispose();
    await Promise.allSettled([...this.#spawns, ...this.#work]);
    left += detachAll(this.#context);
    this.#context.incarnation.stop();
    this.#context.anchorMonitor.stop();
    await leases.stop();
    left += await this.#countTakenOver();
    await host[Symbol.asyncDispose]();
    await store[Symbol.asyncDispose]();
    await this.#dependencies.onClosed?.(left);
  }

  /** Runs that were taken over from here live on in this instance's directory, which must not go with it. */
  async #countTakenOver(): Promise<number> {
    if (this.#context.incarnation.taken !== null) return 1;
    if (!this.#context.hasLostRuns) return 0;
    const open = await this.#context.store.listRuns({ states: OPEN_RUN_STATES }).catch(() => null);
    if (open === null) return 1;
    return open.filter(
      ({ originInstanceId, ownerInstanceId }) =>
        originInstanceId === this.instanceId && ownerInstanceId !== this.instanceId,
    ).length;
  }

  #assertOpen(consequence: string): void {
    const { taken } = this.#context.incarnation;
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

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
