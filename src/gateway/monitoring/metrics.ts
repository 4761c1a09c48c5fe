import { setImmediate as nextTurn } from "node:timers/promises";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { NativeObserver } from "../../anchor/native-observer.js";
import { defaults } from "../../defaults.js";
import type { RunEvent } from "../../model/run-event.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import { isTaskEnded, type TaskStatus } from "../../model/task.js";
import { TASK_STATUSES } from "../../model/enums.js";
import { EventCursor } from "../../store/runs/event-cursor.js";
import type { EventFilter } from "../../store/runs/contract.js";
import type { OutboxResult, TaskStore } from "../../store/tasks/contract.js";
import type { Supervisor } from "../../supervisor/api.js";
import { listLiveProcesses } from "../../supervisor/inspect/live-processes.js";
import type { StoreHealth, StoreWriteHealth } from "./store-health.js";

type Attempt = OutboxResult["status"];

const ATTEMPTS: readonly Attempt[] = ["delivered", "session_queued", "parent_missing", "failed", "pending"];
const UNDELIVERED = ["pending", "session_queued", "failed"] as const;

/** Metrics of tasks: gauges over the store, and counters of this gateway since its start. */
export class TaskMetrics {
  readonly registry = new Registry();
  readonly #ended = this.#counter("holdfast_task_end_total", "tasks ended, by how");
  readonly #attempts = this.#counter(
    "holdfast_task_attempt_total",
    "attempts to deliver a message, by result; pending: it is retried",
  );

  constructor(store: Pick<TaskStore, "countOpenTasks" | "countUndelivered">) {
    const open = TASK_STATUSES.filter((status) => !isTaskEnded(status));
    for (const status of TASK_STATUSES.filter(isTaskEnded)) this.#ended.inc({ status }, 0);
    for (const status of ATTEMPTS) this.#attempts.inc({ status }, 0);
    this.#gauge("holdfast_tasks", "open tasks, by status", open, () => store.countOpenTasks());
    this.#gauge(
      "holdfast_task_messages",
      "messages not delivered: pending, waiting in a session, failed",
      UNDELIVERED,
      () => store.countUndelivered(),
    );
  }

  countEnd(status: TaskStatus): void {
    this.#ended.inc({ status });
  }

  countAttempt(status: Attempt): void {
    this.#attempts.inc({ status });
  }

  #counter(name: string, help: string): Counter<"status"> {
    return new Counter({ name, help, labelNames: ["status"], registers: [this.registry] });
  }

  #gauge(
    name: string,
    help: string,
    statuses: readonly string[],
    count: () => Promise<ReadonlyMap<string, number>>,
  ): void {
    const gauge: Gauge<"status"> = new Gauge({
      name,
      help,
      labelNames: ["status"],
      registers: [this.registry],
      collect: async () => {
        const counts = await count().catch(() => null);
        // A store that cannot be read must not keep the other metrics from being reported.
        if (counts === null) return gauge.reset();
        for (const status of statuses) gauge.set({ status }, counts.get(status) ?? 0);
      },
    });
  }
}

const PREFIX = "holdfast_run_";

/** Events read at a time. */
const PAGE_SIZE = 500;

/** Prometheus metrics, counted from the events of all supervisors of the state directory since this gateway's start. */
export class Metrics implements AsyncDisposable {
  readonly #registry = new Registry();
  readonly #supervisor: Supervisor;
  readonly #tasks: Pick<TaskMetrics, "registry">;
  readonly #filter: Pick<EventFilter, "stateId">;
  readonly #stops = new Map<string, number>();
  #cursor: EventCursor | null = null;
  #counting: Promise<void> | null = null;
  #timer: NodeJS.Timeout | null = null;

  readonly #spawned = this.#counter("spawn_total", "commands executed");
  readonly #exited = this.#counter("exit_total", "runs ended, by reason", ["reason"]);
  readonly #timedOut = this.#counter("timeout_total", "runs ended by a timeout", ["type"]);
  readonly #cleaned = this.#counter("cleanup_kill_total", "processes ended besides the leader", ["mode"]);
  readonly #orphans = this.#counter("reconcile_orphans_total", "runs found without an owner and reconciled");
  readonly #stolen = this.#counter("lease_steal_total", "leases taken from a dead or stuck owner");
  readonly #restored = this.#counter(
    "restore_total",
    "records restored into a store that lost them by a roll-back",
  );
  readonly #escaped = this.#counter("ownership_escape_total", "runs that left detached processes behind");
  readonly #spawnSeconds = this.#histogram("spawn_seconds", "from the record to the command's exec");
  readonly #stopSeconds = this.#histogram("stop_seconds", "from the stop to the proven end");

  /** `filter`: the events to count. */
  constructor(
    supervisor: Supervisor,
    host: NativeObserver,
    tasks: Pick<TaskMetrics, "registry">,
    filter: Pick<EventFilter, "stateId">,
    health: Pick<StoreHealth, "get">,
  ) {
    this.#supervisor = supervisor;
    this.#tasks = tasks;
    this.#filter = filter;
    for (const type of ["overall", "no_output"]) this.#timedOut.inc({ type }, 0);
    for (const mode of ["pid", "pgid", "cgroup", "job"]) this.#cleaned.inc({ mode }, 0);
    const open = async (): Promise<readonly RunRecord[]> =>
      (
        await supervisor.listRunsOrLocal({
          ...(await supervisor.scope()),
          states: OPEN_RUN_STATES,
          withoutLabels: true,
        })
      ).runs;
    const ofStore = (name: string, help: string, value: (now: StoreWriteHealth) => number): void => {
      const gauge: Gauge = new Gauge({
        name: `holdfast_store_${name}`,
        help,
        registers: [this.#registry],
        collect: () => gauge.set(value(health.get())),
      });
    };
    ofStore("writable", "1: the last write to the store was accepted", (now) => Number(now.writable));
    ofStore("write_backlog", "writes of runs that wait to be repeated", (now) => now.backlog);
    ofStore(
      "renewal_age_seconds",
      "time since the leases of this gateway were last renewed",
      (now) => now.renewalMs / 1000,
    );
    const live = new Gauge({
      name: "holdfast_runs",
      help: "open runs, by state",
      labelNames: ["state"],
      registers: [this.#registry],
      collect: async () => {
        const runs = await open();
        for (const state of OPEN_RUN_STATES)
          live.set({ state }, runs.filter((run) => run.state === state).length);
      },
    });
    const processes = new Gauge({
      name: "holdfast_processes",
      help: "live processes in the runs of this machine",
      registers: [this.#registry],
      collect: async () => {
        const runs = await listLiveProcesses(host, await open());
        processes.set([...runs.values()].reduce((total, run) => total + run.processes.length, 0));
      },
    });
  }

  /** Counts new events: at each scrape, and periodically before events are deleted. */
  async start(): Promise<void> {
    await this.#catchUp();
    this.#timer = setInterval(() => void this.#catchUp(), defaults.eventPollMs).unref();
  }

  async text(): Promise<string> {
    await this.#catchUp();
    return Registry.merge([this.#registry, this.#tasks.registry]).metrics();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#counting;
  }

  /** Never rejects: if the store cannot be read, the next call continues at the same event. */
  #catchUp(): Promise<void> {
    this.#counting ??= this.#countNewEvents()
      .catch(() => undefined)
      .finally(() => {
        this.#counting = null;
      });
    return this.#counting;
  }

  async #countNewEvents(): Promise<void> {
    this.#cursor ??= new EventCursor(this.#supervisor, await this.#newest(), this.#filter);
    for (let more = true; more;) {
      const { events, full } = await this.#cursor.next(PAGE_SIZE);
      for (const event of events) await this.#countEvent(event);
      more = full;
      // SQLite reads block the event loop.
      if (more) await nextTurn();
    }
  }

  async #newest(): Promise<number> {
    const [newest] = await this.#supervisor.listEvents({ newestFirst: true, limit: 1 });
    return newest?.seq ?? 0;
  }

  /** Never rejects. */
  async #countEvent(event: RunEvent): Promise<void> {
    switch (event.type) {
      case "spawn": {
        this.#spawned.inc();
        const record = await this.#supervisor.getRun(event.runId).catch(() => null);
        if (record !== null) this.#spawnSeconds.observe(Math.max(0, event.at - record.createdAt) / 1000);
        return;
      }
      case "cancel":
        this.#stops.set(event.runId, event.at);
        return;
      case "exit": {
        const { reason } = event.data;
        this.#exited.inc({ reason });
        if (reason === "overall-timeout") this.#timedOut.inc({ type: "overall" });
        if (reason === "no-output-timeout") this.#timedOut.inc({ type: "no_output" });
        const stopped = this.#stops.get(event.runId);
        if (stopped !== undefined) this.#stopSeconds.observe(Math.max(0, event.at - stopped) / 1000);
        this.#stops.delete(event.runId);
        return;
      }
      case "cleanup": {
        const { mode, residue, ended = residue } = event.data;
        if (ended > 0) this.#cleaned.inc({ mode }, ended);
        return;
      }
      case "escape":
        this.#escaped.inc();
        return;
      case "reconcile":
        // The run was held all the time; only the store had lost its record.
        if (event.data.action === "restore") {
          this.#restored.inc();
          return;
        }
        if (event.data.action !== "leave") this.#orphans.inc();
        if (event.data.action !== "leave" && event.data.from !== event.data.by) this.#stolen.inc();
        return;
      case "output":
      case "output-lost":
      case "ready":
      case "adopt":
      case "permission":
      case "turn":
      case "attach":
      case "anchor-silent":
      case "anchor-answers":
      case "command":
      case "store-unwritable":
        return;
    }
  }

  #counter<Label extends string = never>(
    name: string,
    help: string,
    labelNames: Label[] = [],
  ): Counter<Label> {
    return new Counter({ name: `${PREFIX}${name}`, help, labelNames, registers: [this.#registry] });
  }

  #histogram(name: string, help: string): Histogram {
    return new Histogram({
      name: `${PREFIX}${name}`,
      help,
      buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60],
      registers: [this.#registry],
    });
  }
}
