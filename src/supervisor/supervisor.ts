import type { InstanceHold } from "../anchor/instance-locks.js";
import type { AnchorHost, StreamName } from "../anchor/host.js";
import { defaults } from "../defaults.js";
import {
  BadInput,
  type InstanceTaken,
  NotSteering,
  RunNotFound,
  StoreAway,
  SupervisorClosed,
} from "../errors.js";
import type { RunEvent } from "../store/run-event.js";
import type { Ledger } from "../store/ledger/ledger.js";
import { runsInLedger } from "../store/ledger/list-runs.js";
import { remembering } from "../store/ledger/remembering.js";
import { OPEN_STATES, type RunRecord } from "../store/run-record.js";
import type { EventFilter, RunFilter, RunStore } from "../store/store.js";
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
  SpawnOptions,
  Stopped,
  StoreWrites,
  Supervisor,
} from "./api.js";
import { AnchorWatch } from "./anchor-watch.js";
import { adoptProcess } from "./adopt-process.js";
import { adoptRun } from "./adopt-run.js";
import { systemClock, type Clock } from "./clock.js";
import { awaitEnds, closeRun, letGoOfAll } from "./close.js";
import type { Context } from "./context.js";
import type { Holds } from "./hold.js";
import { newIncarnation } from "./ids.js";
import { Incarnation } from "./incarnation.js";
import { Leases } from "./leases.js";
import { letGo } from "./let-go.js";
import { LocalAnswers } from "./local-answers.js";
import type { LiveRun } from "./live-run.js";
import { readOutput } from "./output.js";
import { awaitReady, endedUnready } from "./readiness.js";
import { Left } from "./reconcile/left.js";
import { addressOf } from "./reconcile/look.js";
import { reconcile, type Reconciled, type Scope } from "./reconcile/reconcile.js";
import { missed } from "./regain.js";
import { retain } from "./retain.js";
import { runOf } from "./run.js";
import { StoreGate } from "./store-gate.js";
import { spawn } from "./spawn.js";
import { stateScope } from "./state-scope.js";
import { stop } from "./stop.js";

export interface SupervisorParts {
  readonly store: RunStore;
  /** For a store that others share, too: what it was told from here. */
  readonly ledger?: Ledger;
  /** Connections that keep its runs while the store is away. */
  readonly holds?: Holds;
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
export function createSupervisor(parts: SupervisorParts): Supervisor {
  return new ComposedSupervisor(parts);
}

class ComposedSupervisor implements Supervisor {
  readonly instanceId: string;
  readonly home: string;
  readonly #parts: SupervisorParts;
  readonly #context: Context;
  /** Work nobody awaits but close(). */
  readonly #work = new Set<Promise<unknown>>();
  readonly #spawns = new Set<Promise<unknown>>();
  /** One at a time: two would decide on the same evidence. */
  #reconciling: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | null = null;
  readonly #answers: LocalAnswers;

  constructor(parts: SupervisorParts) {
    const {
      ledger = null,
      host,
      clock = systemClock,
      instanceId,
      home,
      stateId = null,
      actor = `supervisor:${instanceId}`,
      discardOutput = false,
      withheldEnv = [],
    } = parts;
    this.#parts = parts;
    this.instanceId = instanceId;
    this.home = home;
    this.#answers = new LocalAnswers(clock);
    const report = (problem: Problem): void => {
      try {
        parts.onProblem?.(problem);
      } catch {
        // Whoever listens badly must not keep a run from being ended.
      }
    };
    const unkept = (runId: string, cause: unknown): void =>
      report({ runId, message: `run ${runId}: no copy of its record could be kept here`, cause });
    const store = ledger === null ? parts.store : remembering(parts.store, ledger, unkept);
    const live: Context["live"] = new Map();
    const incarnation = new Incarnation({
      instanceId,
      check: parts.locks === undefined ? null : () => parts.locks?.check() ?? Promise.resolve("held"),
      clock,
      report,
      taken: (error) => this.#leaveToOther(error),
    });
    const leases = new Leases({
      store,
      clock,
      instanceId,
      isCurrent: () => incarnation.isCurrent(),
      held: () => live.size,
      missing: (known) => {
        for (const each of [...live.values()])
          if (!known.has(each.facts.runId)) this.#context.track(each.facts.runId, missed(each));
      },
      failing: (cause) =>
        report({ runId: null, message: "the leases could not be renewed; trying again", cause }),
    });
    this.#context = {
      clock,
      store,
      ledger,
      host,
      instanceId,
      stateId,
      actor,
      discardOutput,
      withheldEnv,
      leases,
      incarnation,
      process: parts.incarnation ?? newIncarnation(),
      anchors: new AnchorWatch(clock, () => live.values()),
      gate: new StoreGate(clock, () => {
        // Writing works again: the right to steer need not wait for the next renewal.
        if (leases.fenced) void leases.renew();
      }),
      live,
      beginning: new Set(),
      closing: null,
      robbed: false,
      // An earlier process may not have lived to see it.
      doubted: true,
      comparedEra: 0,
      left: new Left(),
      settled: new Set(),
      report,
      track: (runId, work) => {
        const told = work.catch((cause: unknown) =>
          report({ runId, message: `run ${runId}: ${text(cause)}`, cause }),
        );
        void tracked(this.#work, told);
      },
    };
    leases.start();
    incarnation.start();
  }

  /** Another process is this instance: control nothing, write nothing, leave every run alive. */
  #leaveToOther(error: InstanceTaken): void {
    const { live, leases } = this.#context;
    // A run that is being started is released as soon as it exists.
    this.#context.closing ??= { actor: null };
    for (const each of [...live.values()]) letGo(each, error);
    void leases.stop();
    this.#context.report({ runId: null, message: error.message, cause: error });
    this.#parts.onTaken?.(error);
  }

  async spawn(input: CommandInput, options: SpawnOptions = {}): Promise<Run> {
    this.#mustBeOpen("nothing was recorded or started");
    return runOf(await tracked(this.#spawns, spawn(this.#context, input, options)));
  }

  get held(): number {
    return this.#context.live.size;
  }

  runs(): readonly Run[] {
    return [...this.#context.live.values()].map(runOf);
  }

  run(runId: string): Run | null {
    const live = this.#context.live.get(runId);
    return live === undefined ? null : runOf(live);
  }

  async recover(): Promise<readonly Run[]> {
    return (await this.#reconcile({ own: true })).taken.map(runOf);
  }

  async reconcile(scope: ReconcileScope = {}): Promise<Reconciliation> {
    const { decisions, taken } = await this.#reconcile(scope);
    return { decisions, runs: taken.map(runOf) };
  }

  async holdOn(): Promise<number> {
    const { holds } = this.#parts;
    await this.#mustBeCurrent();
    await holds?.holdAll((runId) => this.#context.live.has(runId));
    return holds?.size ?? 0;
  }

  async retain(limits?: Partial<Retention>): Promise<Retained> {
    this.#mustBeOpen("nothing was removed");
    return tracked(this.#work, retain(this.#context, limits));
  }

  async stop(runId: string, options?: CancelOptions): Promise<Stopped> {
    this.#mustBeOpen("nothing was stopped");
    return stop(this.#context, runId, (id) => this.getRun(id), options);
  }

  async hide(runIds: readonly string[]): Promise<number> {
    this.#mustBeOpen("nothing was hidden");
    return this.#context.store.hideRuns(runIds, this.#context.clock.wall());
  }

  async ready(runId: string, options?: ReadyOptions): Promise<Readiness> {
    this.#mustBeOpen("nothing was waited for");
    const live = this.#context.live.get(runId);
    if (live !== undefined) return awaitReady(live, options);
    const record = await this.#context.store.getRun(runId);
    return record?.state === "exited"
      ? endedUnready(this.#context, record)
      : awaitReady(await this.#held(runId), options);
  }

  async adoptRun(runId: string, options?: AdoptOptions): Promise<RunRecord> {
    this.#mustBeOpen("nothing was changed");
    return adoptRun(await this.#held(runId), options);
  }

  async adoptProcess(pid: number, options?: Pick<AdoptOptions, "actor">): Promise<AdoptedProcess> {
    this.#mustBeOpen("nothing was changed");
    return tracked(this.#spawns, adoptProcess(this.#context, pid, options));
  }

  async getRun(runId: string): Promise<RunRecord | null> {
    const { store, ledger } = this.#context;
    if (ledger === null) return store.getRun(runId);
    // The ledger has every run of this state directory that is open or ended lately, so it can be read and stopped whatever the state of the store.
    return this.#answers.ask<RunRecord | null>(
      () => store.getRun(runId),
      async () => (await ledger.get(runId))?.record ?? null,
    );
  }

  async readOutput(runId: string, stream: StreamName, options?: ReadOptions): Promise<OutputChunk> {
    const live = this.#context.live.get(runId);
    if (live !== undefined) return readOutput(this.#context.host, live.facts.address, stream, options);
    const record = await this.getRun(runId);
    if (record === null) throw new RunNotFound(runId);
    return readOutput(this.#context.host, addressOf(record), stream, options);
  }

  async listRunsOrLocal(filter: RunFilter = {}, withinMs: number = defaults.localListMs): Promise<RunList> {
    const { store, ledger } = this.#context;
    if (ledger === null) return { runs: await store.listRuns(filter), storeAway: null };
    return this.#answers.ask<RunList>(
      async () => ({ runs: await store.listRuns(filter), storeAway: null }),
      async (why) => ({
        runs: await runsInLedger(ledger, filter),
        storeAway: why === null ? "the store does not answer" : text(why),
      }),
      withinMs,
    );
  }

  async listRuns(filter: RunFilter = {}): Promise<readonly RunRecord[]> {
    return this.#context.store.listRuns(filter);
  }

  writes(): StoreWrites {
    const { gate, leases, live } = this.#context;
    const pending = [...live.values()].map(({ journal }) => journal.pending);
    const backlog = pending.reduce((total, count) => total + count, 0);
    return {
      // A refusal without a waiting write belongs to a run that this supervisor has released since.
      refusal: (backlog > 0 ? gate.refusal : null) ?? leases.refusal,
      backlog,
      renewalMs: leases.sinceRenewalMs,
    };
  }

  async listEvents(filter: EventFilter = {}): Promise<readonly RunEvent[]> {
    return this.#context.store.listEvents(filter);
  }

  async scope(): Promise<Pick<RunFilter, "ofState">> {
    const { store, host, stateId } = this.#context;
    return stateScope(store, host, stateId);
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

  async #reconcile(scope: Scope): Promise<Reconciled> {
    this.#mustBeOpen("nothing was looked at");
    const pass = this.#reconciling.then(async () => {
      this.#mustBeOpen("nothing was looked at");
      await this.#mustBeCurrent();
      return reconcile(this.#context, scope).catch((error: unknown) => this.#holdOn(error));
    });
    this.#reconciling = pass.catch(() => undefined);
    return tracked(this.#work, pass);
  }

  async #mustBeCurrent(): Promise<void> {
    const { incarnation } = this.#context;
    if (!(await incarnation.isCurrent()) && incarnation.taken !== null) throw incarnation.taken;
  }

  async #holdOn(error: unknown): Promise<never> {
    if (error instanceof StoreAway) {
      this.#context.left.sawNothing();
      await this.holdOn();
    }
    throw error;
  }

  /** A run that this supervisor holds, or why it cannot be had. */
  async #held(runId: string): Promise<LiveRun> {
    const live = this.#context.live.get(runId);
    if (live !== undefined) return live;
    const record = await this.#context.store.getRun(runId);
    if (record === null) throw new RunNotFound(runId);
    throw record.state === "exited"
      ? new BadInput("runId", `run ${runId} has ended; nothing was changed`)
      : new NotSteering(runId, `${record.ownerInstanceId} holds it, not this supervisor`);
  }

  async #close(leaveRuns: boolean, actor: string): Promise<void> {
    const { store, host, leases, live } = this.#context;
    let left = 0;
    const closing = { actor: leaveRuns ? null : actor };
    this.#context.closing = closing;
    if (leaveRuns) left += live.size;
    for (const each of [...live.values()]) closeRun(each, closing);
    await awaitEnds(this.#context);
    // What was just being started closes itself as soon as it has a run; no process may slip through between.
    await this.#context.clock.pause(
      defaults.launcherReadyMs + defaults.closeSlackMs,
      Promise.allSettled(this.#spawns),
    );
    await awaitEnds(this.#context);
    left += letGoOfAll(this.#context);
    this.#context.gate.dispose();
    await Promise.allSettled([...this.#spawns, ...this.#work]);
    left += letGoOfAll(this.#context);
    this.#context.incarnation.stop();
    this.#context.anchors.stop();
    await leases.stop();
    left += await this.#withOthers();
    await host[Symbol.asyncDispose]();
    await store[Symbol.asyncDispose]();
    await this.#parts.onClosed?.(left);
  }

  /** Runs that were taken over from here live on in this instance's directory, which must not go with it. */
  async #withOthers(): Promise<number> {
    if (this.#context.incarnation.taken !== null) return 1;
    if (!this.#context.robbed) return 0;
    const open = await this.#context.store.listRuns({ states: OPEN_STATES }).catch(() => null);
    if (open === null) return 1;
    return open.filter(
      ({ originInstanceId, ownerInstanceId }) =>
        originInstanceId === this.instanceId && ownerInstanceId !== this.instanceId,
    ).length;
  }

  #mustBeOpen(consequence: string): void {
    const { taken } = this.#context.incarnation;
    if (taken !== null) throw taken;
    if (this.#closing !== null) throw new SupervisorClosed(this.instanceId, consequence);
  }
}

function tracked<T>(work: Set<Promise<unknown>>, promise: Promise<T>): Promise<T> {
  work.add(promise);
  const done = (): void => {
    work.delete(promise);
  };
  void promise.then(done, done);
  return promise;
}

function text(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
