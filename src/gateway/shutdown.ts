import { setTimeout } from "node:timers/promises";
import type { ShutdownPolicy, ShutdownSummary } from "../api/routes/gateway.js";
import { defaults } from "../defaults.js";
import { SupervisorClosed } from "../errors.js";
import type { Run, Supervisor } from "../supervisor/api.js";
import type { ForegroundClients } from "./foreground/foreground-clients.js";

/** Those that talk with agents, which do not end by themselves. */
export interface AgentActivity {
  /** Whether the run is an agent that one of them talks with. */
  ownsRun(runId: string): boolean;
  /** Resolves when no agent works on anything. */
  waitUntilIdle(enough: AbortSignal): Promise<void>;
}

/**
 * See to the runs before the gateway leaves, whatever the store does. Services are left in any case but `terminate`.
 * Aborted, it drains no longer.
 */
export async function shutDownRuns(
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
    const enough = AbortSignal.any([signal, AbortSignal.timeout(waitMs)]);
    // A store that is away cannot say what they work on.
    const quiet = agents.waitUntilIdle(enough).catch(() => undefined);
    await Promise.all([waitForTasks(supervisor, tasks, waitMs, signal), quiet]);
    ended = tasks.filter(({ state }) => state === "exited").length;
  }
  const left = held.length - ended - terminated;
  return { left, ended, terminated, callers: Math.min(left, foregroundClients.attachedCount) };
}

/** At what is in memory, for as long as nothing is said by the store. */
const POLL_MS = 50;

/** Until their ends are on record; those that a store which is away has not recorded yet keep nobody waiting. */
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

/** How the gateway was told to leave. The last word counts, but what is being terminated stays so. */
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

  /** Whether what is held is terminated, also what nobody has counted yet. */
  get terminates(): boolean {
    return this.#pending?.policy.runs === "terminate";
  }

  /** A run that began now would be no part of what was settled. */
  assertAcceptingRuns(): void {
    if (this.#pending === null) return;
    throw new SupervisorClosed(
      this.#supervisor.instanceId,
      "its gateway is being stopped; nothing was started",
    );
  }

  /** Left out: as was said before, else the runs are left. After a failure it is as if nobody had asked. */
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
