import type { AnchorHost } from "../anchor/host.js";
import { defaults } from "../defaults.js";
import { SupervisorClosed } from "../errors.js";
import type { RunEvent } from "../store/run-event.js";
import type { RunRecord } from "../store/run-record.js";
import type { EventFilter, RunFilter, Store } from "../store/store.js";
import type {
  CommandInput,
  Problem,
  ReconcileScope,
  Reconciliation,
  Retained,
  Retention,
  Run,
  SpawnOptions,
  Supervisor,
} from "./api.js";
import { systemClock, type Clock } from "./clock.js";
import { awaitEnds, closeRun, letGoOfAll } from "./close.js";
import type { Context } from "./context.js";
import { Leases } from "./leases.js";
import type { LiveRun } from "./live-run.js";
import { Left } from "./reconcile/left.js";
import { reconcile, type Reconciled, type Scope } from "./reconcile/reconcile.js";
import { robbed } from "./regain.js";
import { retain } from "./retain.js";
import { runOf } from "./run.js";
import { StoreGate } from "./store-gate.js";
import { spawn } from "./spawn.js";

export interface SupervisorParts {
  readonly store: Store;
  readonly host: AnchorHost;
  readonly clock?: Clock;
  readonly instanceId: string;
  readonly home: string;
  readonly actor?: string;
  readonly discardOutput?: boolean;
  readonly onProblem?: (problem: Problem) => void;
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

  constructor(parts: SupervisorParts) {
    const {
      store,
      host,
      clock = systemClock,
      instanceId,
      home,
      actor = `supervisor:${instanceId}`,
      discardOutput = false,
    } = parts;
    this.#parts = parts;
    this.instanceId = instanceId;
    this.home = home;
    const report = (problem: Problem): void => {
      try {
        parts.onProblem?.(problem);
      } catch {
        // Whoever listens badly must not keep a run from being ended.
      }
    };
    const live: Context["live"] = new Map();
    const leases = new Leases({
      store,
      clock,
      instanceId,
      held: () => live.size,
      missing: (known) => {
        for (const each of live.values())
          if (!known.has(each.facts.runId)) this.#context.track(each.facts.runId, this.#robbed(each));
      },
      failing: (cause) =>
        report({ runId: null, message: "the leases could not be renewed; trying again", cause }),
    });
    this.#context = {
      clock,
      store,
      host,
      instanceId,
      actor,
      discardOutput,
      leases,
      gate: new StoreGate(clock),
      live,
      closing: null,
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
  }

  async spawn(input: CommandInput, options: SpawnOptions = {}): Promise<Run> {
    this.#mustBeOpen("nothing was recorded or started");
    return runOf(await tracked(this.#spawns, spawn(this.#context, input, options)));
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

  async retain(limits?: Partial<Retention>): Promise<Retained> {
    this.#mustBeOpen("nothing was removed");
    return tracked(this.#work, retain(this.#context, limits));
  }

  async getRun(runId: string): Promise<RunRecord | null> {
    return this.#context.store.getRun(runId);
  }

  async listRuns(filter: RunFilter = {}): Promise<readonly RunRecord[]> {
    return this.#context.store.listRuns(filter);
  }

  async listEvents(filter: EventFilter = {}): Promise<readonly RunEvent[]> {
    return this.#context.store.listEvents(filter);
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
    const pass = this.#reconciling.then(() => {
      this.#mustBeOpen("nothing was looked at");
      return reconcile(this.#context, scope);
    });
    this.#reconciling = pass.catch(() => undefined);
    return tracked(this.#work, pass);
  }

  /** Whoever has it now is named, if the store can still say. */
  async #robbed(live: LiveRun): Promise<void> {
    const record = await this.#context.store.getRun(live.facts.runId).catch(() => null);
    const owner = record?.ownerInstanceId ?? null;
    robbed(live, owner === this.instanceId ? null : owner);
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
    await leases.stop();
    await host[Symbol.asyncDispose]();
    await store[Symbol.asyncDispose]();
    await this.#parts.onClosed?.(left);
  }

  #mustBeOpen(consequence: string): void {
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
