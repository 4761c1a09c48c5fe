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
  /** As what it is called upon. */
  readonly targets: readonly string[];
  readonly onFailure: (runId: string, cause: unknown) => void;
}

/**
 * What other gateways have handed to this one. Each is carried out at least once, which is harmless with a stop, and
 * acknowledged once, whatever dies in between: what is not acknowledged is found again at the next look.
 */
export class RemoteStopExecutor {
  readonly #deps: RemoteStopExecutorDeps;
  readonly #executing = new Map<string, Promise<void>>();
  /** What came of those that could not be acknowledged. */
  readonly #results = new Map<string, RemoteStopResult>();

  constructor(deps: RemoteStopExecutorDeps) {
    this.#deps = deps;
  }

  /** Take up what there is. Resolves when it has been, not when it is done. */
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
      // Anything else may pass: a store that is away, a lease that was lost. Then it is tried again.
      if (error instanceof RunNotFound) return failed(error.message);
      throw error;
    }
  }
}

/** Taken up before, carried out, and not acknowledged: this gateway has died in between. */
function wasStoppedBy({ acceptedAt, actor }: RemoteStop, record: RunRecord | null): boolean {
  return acceptedAt !== null && record?.exit?.reason === "manual-cancel" && record.exit.actor === actor;
}
