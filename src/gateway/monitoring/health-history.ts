import { defaults } from "../../defaults.js";
import type { StoreHealth } from "./store-write-health.js";
import type { RunTotals } from "./run-totals.js";

/** The state of the gateway at one time. */
export interface HealthSample {
  readonly at: number;
  /** Runs that the gateway holds. */
  readonly runs: number;
  /** Totals since its start. */
  readonly spawned: number;
  readonly ended: number;
  readonly cleaned: number;
  /** Writes that wait to be repeated. */
  readonly backlog: number;
  readonly renewalMs: number;
  readonly memoryBytes: number;
  /** Processor time of the gateway since its start. */
  readonly cpuMs: number;
}

interface HealthHistoryDeps {
  readonly totals: RunTotals;
  readonly health: Pick<StoreHealth, "get">;
  readonly held: () => number;
}

/** Samples of the last day, in memory only. Taking one reads no store and no other process. */
export class HealthHistory implements Disposable {
  readonly #deps: HealthHistoryDeps;
  readonly #samples: HealthSample[] = [];
  readonly #timer: NodeJS.Timeout;

  constructor(deps: HealthHistoryDeps) {
    this.#deps = deps;
    this.#timer = setInterval(() => this.#keep(), defaults.healthSampleMs).unref();
    this.#keep();
  }

  /** The oldest first; the last one is of now. */
  samples(): readonly HealthSample[] {
    return [...this.#samples, this.#take()];
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #keep(): void {
    this.#samples.push(this.#take());
    if (this.#samples.length > defaults.healthSamplesKept) this.#samples.shift();
  }

  #take(): HealthSample {
    const { totals, health, held } = this.#deps;
    const { backlog, renewalMs } = health.get();
    const { user, system } = process.cpuUsage();
    return {
      at: Date.now(),
      runs: held(),
      spawned: totals.spawned,
      ended: totals.ended,
      cleaned: Object.values(totals.cleaned).reduce((sum, count) => sum + count, 0),
      backlog,
      renewalMs,
      memoryBytes: process.memoryUsage.rss(),
      cpuMs: Math.round((user + system) / 1_000),
    };
  }
}
