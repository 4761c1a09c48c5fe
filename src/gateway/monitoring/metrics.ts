import { setImmediate as nextTurn } from "node:timers/promises";
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
import { type Counter, type Histogram, MetricsRegistry } from "./prometheus.js";
import { RunTotals } from "./run-totals.js";
import type { StoreHealth, StoreWriteHealth } from "./store-write-health.js";

type Attempt = OutboxResult["status"];

const ATTEMPTS: readonly Attempt[] = ["delivered", "session_queued", "parent_missing", "failed", "pending"];
const UNDELIVERED = ["pending", "session_queued", "failed"] as const;

/** Metrics of tasks: gauges over the store, and counters of this gateway since its start. */
export class TaskMetrics {
  readonly registry = new MetricsRegistry();
  readonly #ended: Counter;
  readonly #attempts: Counter;

  constructor(store: Pick<TaskStore, "countOpenTasks" | "countUndelivered">) {
    const { registry } = this;
    this.#ended = registry.counter("holdfast_task_end_total", "tasks ended, by status", "status");
    this.#attempts = registry.counter(
      "holdfast_task_attempt_total",
      "attempts to deliver a message, by result; pending: it is retried",
      "status",
    );
    for (const status of TASK_STATUSES.filter(isTaskEnded)) this.#ended.add(0, status);
    for (const status of ATTEMPTS) this.#attempts.add(0, status);
    const open = TASK_STATUSES.filter((status) => !isTaskEnded(status));
    registry.gauges("holdfast_tasks", "open tasks, by status", "status", () =>
      countsOf(open, store.countOpenTasks()),
    );
    registry.gauges(
      "holdfast_task_messages",
      "messages not delivered: pending, waiting in a session, failed",
      "status",
      () => countsOf(UNDELIVERED, store.countUndelivered()),
    );
  }

  countEnd(status: TaskStatus): void {
    this.#ended.add(1, status);
  }

  countAttempt(status: Attempt): void {
    this.#attempts.add(1, status);
  }
}

/** The count of each status. Empty if the store cannot be read: the other metrics are reported all the same. */
async function countsOf(
  statuses: readonly string[],
  counting: Promise<ReadonlyMap<string, number>>,
): Promise<ReadonlyMap<string, number>> {
  const counts = await counting.catch(() => null);
  return new Map(counts === null ? [] : statuses.map((status) => [status, counts.get(status) ?? 0]));
}

const PREFIX = "holdfast_run_";

/** Events read at a time. */
const PAGE_SIZE = 500;

/** Prometheus metrics, counted from the events of all supervisors of the state directory since this gateway's start. */
export class Metrics implements AsyncDisposable {
  readonly totals = new RunTotals();
  readonly #registry = new MetricsRegistry();
  readonly #supervisor: Supervisor;
  readonly #tasks: Pick<TaskMetrics, "registry">;
  readonly #filter: Pick<EventFilter, "stateId">;
  readonly #stops = new Map<string, number>();
  #cursor: EventCursor | null = null;
  #counting: Promise<void> | null = null;
  #timer: NodeJS.Timeout | null = null;

  readonly #spawned = this.#counter("spawn_total", "commands executed");
  readonly #exited = this.#counter("exit_total", "runs ended, by reason", "reason");
  readonly #timedOut = this.#counter("timeout_total", "runs ended by a timeout", "type");
  readonly #cleaned = this.#counter("cleanup_kill_total", "processes ended besides the leader", "mode");
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
    for (const type of ["overall", "no_output"]) this.#timedOut.add(0, type);
    for (const mode of ["pid", "pgid", "cgroup", "job"]) this.#cleaned.add(0, mode);
    const open = async (): Promise<readonly RunRecord[]> =>
      (
        await supervisor.listRunsOrLocal({
          ...(await supervisor.scope()),
          states: OPEN_RUN_STATES,
          withoutLabels: true,
        })
      ).runs;
    const ofStore = (name: string, help: string, value: (now: StoreWriteHealth) => number): void =>
      this.#registry.gauge(`holdfast_store_${name}`, help, () => value(health.get()));
    ofStore("writable", "1: the last write to the store was accepted", (now) => Number(now.writable));
    ofStore("write_backlog", "writes of runs that wait to be repeated", (now) => now.backlog);
    ofStore(
      "renewal_age_seconds",
      "time since the leases of this gateway were last renewed",
      (now) => now.renewalMs / 1000,
    );
    this.#registry.gauges("holdfast_runs", "open runs, by state", "state", async () => {
      const runs = await open();
      return new Map(
        OPEN_RUN_STATES.map((state) => [state, runs.filter((run) => run.state === state).length]),
      );
    });
    this.#registry.gauge("holdfast_processes", "live processes in the runs of this machine", async () => {
      const runs = await listLiveProcesses(host, await open());
      return [...runs.values()].reduce((total, run) => total + run.processes.length, 0);
    });
  }

  /** Counts new events: at each scrape, and periodically before events are deleted. */
  async start(): Promise<void> {
    await this.catchUp();
    this.#timer = setInterval(() => void this.catchUp(), defaults.metricsCountMs).unref();
  }

  async text(): Promise<string> {
    await this.catchUp();
    return `${await this.#registry.text()}\n${await this.#tasks.registry.text()}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#counting;
  }

  /** Never rejects: if the store cannot be read, the next call continues at the same event. */
  catchUp(): Promise<void> {
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
    this.totals.count(event);
    switch (event.type) {
      case "spawn": {
        this.#spawned.add(1);
        const record = await this.#supervisor.getRun(event.runId).catch(() => null);
        if (record !== null) this.#spawnSeconds.observe(Math.max(0, event.at - record.createdAt) / 1000);
        return;
      }
      case "cancel":
        this.#stops.set(event.runId, event.at);
        return;
      case "exit": {
        const { reason } = event.data;
        this.#exited.add(1, reason);
        if (reason === "overall-timeout") this.#timedOut.add(1, "overall");
        if (reason === "no-output-timeout") this.#timedOut.add(1, "no_output");
        const stopped = this.#stops.get(event.runId);
        if (stopped !== undefined) this.#stopSeconds.observe(Math.max(0, event.at - stopped) / 1000);
        this.#stops.delete(event.runId);
        return;
      }
      case "cleanup": {
        const { mode, residue, ended = residue } = event.data;
        if (ended > 0) this.#cleaned.add(ended, mode);
        return;
      }
      case "escape":
        this.#escaped.add(1);
        return;
      case "reconcile":
        // The run was held all the time; only the store had lost its record.
        if (event.data.action === "restore") {
          this.#restored.add(1);
          return;
        }
        if (event.data.action !== "leave") this.#orphans.add(1);
        if (event.data.action !== "leave" && event.data.from !== event.data.by) this.#stolen.add(1);
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

  #counter(name: string, help: string, label: string | null = null): Counter {
    return this.#registry.counter(`${PREFIX}${name}`, help, label);
  }

  #histogram(name: string, help: string): Histogram {
    const bounds = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60];
    return this.#registry.histogram(`${PREFIX}${name}`, help, bounds);
  }
}
