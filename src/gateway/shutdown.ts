import { setTimeout } from "node:timers/promises";
import type { ShutdownPolicy, ShutdownSummary } from "../api/routes/gateway.js";
import { withTimeLimit } from "../async/abort.js";
import { defaults } from "../defaults.js";
import { SupervisorClosed } from "../errors.js";
import type { Run, Supervisor } from "../supervisor/api.js";
import type { ForegroundClients } from "./foreground/foreground-clients.js";

/** The activity of ACP agents, which do not end by themselves. */
interface AgentActivity {
  /** True if the run is an ACP agent of this gateway. */
  ownsRun(runId: string): boolean;
  /** Resolves when no agent works on anything. */
  waitUntilIdle(enough: AbortSignal): Promise<void>;
}

/**
 * Applies a shutdown policy to the runs, also while the store is unreachable. Services are stopped only by `terminate`.
 * An abort ends the draining.
 */
async function shutDownRuns(
  supervisor: Pick<Supervisor, "run" | "runs" | "stop">,
  foregroundClients: Pick<ForegroundClients, "attachedCount">,
  { runs, waitMs }: ShutdownPolicy,
  signal: AbortSignal,
  agents: AgentActivity,
): Promise<ShutdownSummary> {
  const held = supervisor.runs().filter(({ state }) => state !== "exited");
  let ended = 0;
  let terminated = 0;
  if (runs === "terminate")
    await Promise.all(
      held.map(async ({ runId }) => {
        const { outcome } = await supervisor.stop(runId, { reason: "shutdown" });
        if (outcome === "gone") terminated++;
      }),
    );
  if (runs === "drain") {
    const tasks = held.filter(({ service, runId }) => service === null && !agents.ownsRun(runId));
    using enough = withTimeLimit(signal, waitMs);
    // Fails if the store is unreachable; the runs are then not waited for.
    const quiet = agents.waitUntilIdle(enough.signal).catch(() => undefined);
    await Promise.all([waitForTasks(supervisor, tasks, waitMs, signal), quiet]);
    ended = tasks.filter(({ state }) => state === "exited").length;
  }
  const left = held.length - ended - terminated;
  return { left, ended, terminated, callers: Math.min(left, foregroundClients.attachedCount) };
}

/** Poll interval of the states in memory. */
const POLL_MS = 50;

/** Waits until the ends of the tasks are recorded, or known in memory while the store is unreachable. */
async function waitForTasks(
  supervisor: Pick<Supervisor, "run">,
  tasks: readonly Run[],
  waitMs: number,
  signal: AbortSignal,
): Promise<void> {
  const until = performance.now() + waitMs;
  const recorded = Promise.allSettled(tasks.map((run) => run.wait()));
  const pause = (ms: number): Promise<unknown> =>
    Promise.race([recorded, setTimeout(ms, undefined, { signal }).catch(() => undefined)]);
  const going = (): boolean =>
    tasks.some(({ runId, state }) => state !== "exited" && supervisor.run(runId) !== null);
  while (going() && !signal.aborted && performance.now() < until)
    await pause(Math.min(POLL_MS, until - performance.now()));
  if (!going()) await pause(defaults.storeAnswerMs);
}

interface PendingShutdown {
  readonly policy: ShutdownPolicy;
  readonly superseded: AbortController;
  readonly done: Promise<ShutdownSummary>;
}

/** The requested shutdown. A later request replaces an earlier one, except `terminate`. */
export class Shutdown {
  readonly #supervisor: Supervisor;
  readonly #foregroundClients: ForegroundClients;
  readonly #agents: AgentActivity;
  #pending: PendingShutdown | null = null;

  constructor(supervisor: Supervisor, foregroundClients: ForegroundClients, agents: AgentActivity) {
    this.#supervisor = supervisor;
    this.#foregroundClients = foregroundClients;
    this.#agents = agents;
  }

  /** True if all runs are terminated, also those that are starting. */
  get terminates(): boolean {
    return this.#pending?.policy.runs === "terminate";
  }

  /** Throws during a shutdown: a new run would not be covered by its policy. */
  assertAcceptingRuns(): void {
    if (this.#pending === null) return;
    throw new SupervisorClosed(
      this.#supervisor.instanceId,
      "its gateway is being stopped; nothing was started",
    );
  }

  /** Default policy: the pending one, otherwise `leave`. A failed request has no effect on later ones. */
  async request(policy?: ShutdownPolicy): Promise<ShutdownSummary> {
    const pending = this.#accept(policy);
    const done = await pending.done.catch((error: unknown) => {
      if (this.#pending === pending) this.#pending = null;
      throw error;
    });
    return pending.superseded.signal.aborted ? this.request() : done;
  }

  #accept(policy: ShutdownPolicy | undefined): PendingShutdown {
    if (this.#pending !== null && (policy === undefined || this.terminates)) return this.#pending;
    this.#pending?.superseded.abort();
    const superseded = new AbortController();
    const accepted = policy ?? { runs: "leave", waitMs: 0 };
    const done = shutDownRuns(
      this.#supervisor,
      this.#foregroundClients,
      accepted,
      superseded.signal,
      this.#agents,
    );
    this.#pending = { policy: accepted, superseded, done };
    return this.#pending;
  }
}
