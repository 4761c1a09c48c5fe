import { Counter, Gauge, Registry } from "prom-client";
import { isTaskEnded, TASK_STATUSES, type TaskStatus } from "../model/task.js";
import type { OutboxResult, TaskStore } from "../store/tasks/store.js";

type Attempt = OutboxResult["status"];

const ATTEMPTS: readonly Attempt[] = ["delivered", "session_queued", "parent_missing", "failed", "pending"];
const UNDELIVERED = ["pending", "session_queued", "failed"] as const;

/** What Prometheus is told of tasks: of all that are in the store; and of what this gateway saw to, since its start. */
export class TaskMetrics {
  readonly registry = new Registry();
  readonly #ended = this.#counter("holdfast_task_end_total", "tasks ended, by how");
  readonly #attempts = this.#counter(
    "holdfast_task_attempt_total",
    "attempts to deliver a message, by what came of them; pending: it is tried again",
  );

  constructor(store: Pick<TaskStore, "countOpenTasks" | "countUndelivered">) {
    const open = TASK_STATUSES.filter((status) => !isTaskEnded(status));
    for (const status of TASK_STATUSES.filter(isTaskEnded)) this.#ended.inc({ status }, 0);
    for (const status of ATTEMPTS) this.#attempts.inc({ status }, 0);
    this.#gauge("holdfast_tasks", "open tasks, by status", open, () => store.countOpenTasks());
    this.#gauge(
      "holdfast_task_messages",
      "messages not delivered: to be sent, waiting in a session, given up",
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
