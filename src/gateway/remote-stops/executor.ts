import { RunNotFound, SupervisorClosed } from "../../errors.js";
import type { RemoteStop, RemoteStopResult } from "../../model/gateway.js";
import type { RunRecord } from "../../model/run.js";
import type { RemoteStopStore } from "../../store/gateways/store.js";
import type { Supervisor } from "../../supervisor/api.js";
import type { RunLocator } from "../peers/locators.js";
import { remoteStopEvent } from "./run-stopper.js";

export interface RemoteStopExecutorDeps {
  readonly supervisor: Pick<Supervisor, "stop" | "getRun">;
  readonly store: Pick<RemoteStopStore, "listRemoteStops" | "acceptRemoteStop" | "finishRemoteStop">;
  readonly runLocator: RunLocator;
  /** The ids under which stops are addressed to this gateway. */
  readonly targets: readonly string[];
  readonly onFailure: (runId: string, cause: unknown) => void;
}

/**
 * Executes stops that other gateways handed over. Each is executed at least once, which is harmless for a stop, and
 * acknowledged once. A stop without an acknowledgement is found again at the next poll.
 */
export class RemoteStopExecutor {
  readonly #deps: RemoteStopExecutorDeps;
  readonly #executing = new Map<string, Promise<void>>();
  /** Results that could not be acknowledged yet. */
  readonly #results = new Map<string, RemoteStopResult>();

  constructor(deps: RemoteStopExecutorDeps) {
    this.#deps = deps;
  }

  /** Accepts all new stops. Resolves when they are accepted, not when they are done. */
  async poll(): Promise<void> {
    for (const command of await this.#deps.store.listRemoteStops(this.#deps.targets)) {
      if (this.#executing.has(command.id)) continue;
      const going = this.#execute(command)
        .catch((cause: unknown) => {
          if (!(cause instanceof SupervisorClosed)) this.#deps.onFailure(command.runId, cause);
        })
        .finally(() => this.#executing.delete(command.id));
      this.#executing.set(command.id, going);
    }
  }

  async #execute(command: RemoteStop): Promise<void> {
    const { store, supervisor } = this.#deps;
    if (command.acceptedAt === null) await store.acceptRemoteStop(command.id);
    const record = await supervisor.getRun(command.runId);
    const result = this.#results.get(command.id) ?? (await this.#stop(command, record));
    this.#results.set(command.id, result);
    await store.finishRemoteStop(command.id, result, [remoteStopEvent(command, record, result)]);
    this.#results.delete(command.id);
  }

  async #stop(command: RemoteStop, record: RunRecord | null): Promise<RemoteStopResult> {
    const { id, runId, actor, graceMs } = command;
    const { supervisor, runLocator } = this.#deps;
    const failed = (error: string): RemoteStopResult => ({ outcome: "failed", survivors: [], error });
    if (record === null) return failed("its record is gone");
    if ((await runLocator.remoteGatewayOf(record)) !== null)
      return failed("it is not of this state directory");
    const request = { actor, requestId: id, ...(graceMs === null ? {} : { graceMs }) };
    try {
      const { outcome, survivors } = await supervisor.stop(runId, request);
      const ours = outcome === "ended-before" && wasStoppedBy(command, await supervisor.getRun(runId));
      return { outcome: ours ? "gone" : outcome, survivors: [...survivors], error: null };
    } catch (error) {
      // Other errors are temporary, such as an unreachable store or a lost lease: the stop is retried.
      if (error instanceof RunNotFound) return failed(error.message);
      throw error;
    }
  }
}

/** The result of a stop that a former process of this gateway executed without acknowledging it. */
function wasStoppedBy({ acceptedAt, actor }: RemoteStop, record: RunRecord | null): boolean {
  return acceptedAt !== null && record?.exit?.reason === "manual-cancel" && record.exit.actor === actor;
}
