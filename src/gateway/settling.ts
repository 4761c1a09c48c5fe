import { SupervisorClosed } from "../errors.js";
import type { Supervisor } from "../supervisor/api.js";
import type { Callers } from "./callers.js";
import { settleRuns, type Agents, type StopPolicy, type Stopping } from "./stop.js";

interface Heard {
  readonly policy: StopPolicy;
  readonly superseded: AbortController;
  readonly done: Promise<Stopping>;
}

/** How the gateway was told to leave. The last word counts, but what is being terminated stays so. */
export class Settling {
  readonly #supervisor: Supervisor;
  readonly #callers: Callers;
  readonly #agents: Agents;
  #heard: Heard | null = null;

  constructor(supervisor: Supervisor, callers: Callers, agents: Agents) {
    this.#supervisor = supervisor;
    this.#callers = callers;
    this.#agents = agents;
  }

  /** Whether what is held is terminated, also what nobody has counted yet. */
  get terminates(): boolean {
    return this.#heard?.policy.runs === "terminate";
  }

  /** A run that began now would be no part of what was settled. */
  mayStart(): void {
    if (this.#heard === null) return;
    throw new SupervisorClosed(
      this.#supervisor.instanceId,
      "its gateway is being stopped; nothing was started",
    );
  }

  /** Left out: as was said before, else the runs are left. After a failure it is as if nobody had asked. */
  async settle(policy?: StopPolicy): Promise<Stopping> {
    const heard = this.#hear(policy);
    const done = await heard.done.catch((error: unknown) => {
      if (this.#heard === heard) this.#heard = null;
      throw error;
    });
    return heard.superseded.signal.aborted ? this.settle() : done;
  }

  #hear(policy: StopPolicy | undefined): Heard {
    if (this.#heard !== null && (policy === undefined || this.terminates)) return this.#heard;
    this.#heard?.superseded.abort();
    const superseded = new AbortController();
    const said = policy ?? { runs: "leave", waitMs: 0 };
    const done = settleRuns(this.#supervisor, this.#callers, said, superseded.signal, this.#agents);
    this.#heard = { policy: said, superseded, done };
    return this.#heard;
  }
}
