import { SupervisorClosed } from "../errors.js";
import type { Supervisor } from "../supervisor/api.js";
import type { ForegroundClients } from "./foreground/foreground-clients.js";
import { shutDownRuns, type AgentActivity, type ShutdownPolicy, type ShutdownSummary } from "./shutdown.js";

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
