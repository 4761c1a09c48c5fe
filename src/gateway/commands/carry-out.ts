import { RunNotFound, SupervisorClosed } from "../../errors.js";
import type { CommandRecord, CommandResult } from "../../store/command-record.js";
import type { CommandStore } from "../../store/command-store.js";
import type { RunRecord } from "../../store/run-record.js";
import type { Supervisor } from "../../supervisor/api.js";
import type { Whereabouts } from "../peers/whereabouts.js";
import { commandEvent } from "./command-event.js";

export interface ErrandsParts {
  readonly supervisor: Pick<Supervisor, "stop" | "getRun">;
  readonly store: Pick<CommandStore, "listCommands" | "acceptCommand" | "finishCommand">;
  readonly whereabouts: Whereabouts;
  /** As what it is called upon. */
  readonly targets: readonly string[];
  readonly failing: (runId: string, cause: unknown) => void;
}

/**
 * What other gateways have handed to this one. Each is carried out at least once, which is harmless with a stop, and
 * acknowledged once, whatever dies in between: what is not acknowledged is found again at the next look.
 */
export class Errands {
  readonly #parts: ErrandsParts;
  readonly #underWay = new Map<string, Promise<void>>();
  /** What came of those that could not be acknowledged. */
  readonly #results = new Map<string, CommandResult>();

  constructor(parts: ErrandsParts) {
    this.#parts = parts;
  }

  /** Take up what there is. Resolves when it has been, not when it is done. */
  async look(): Promise<void> {
    for (const command of await this.#parts.store.listCommands(this.#parts.targets)) {
      if (this.#underWay.has(command.id)) continue;
      const going = this.#carryOut(command)
        .catch((cause: unknown) => {
          if (!(cause instanceof SupervisorClosed)) this.#parts.failing(command.runId, cause);
        })
        .finally(() => this.#underWay.delete(command.id));
      this.#underWay.set(command.id, going);
    }
  }

  async #carryOut(command: CommandRecord): Promise<void> {
    const { store, supervisor } = this.#parts;
    if (command.acceptedAt === null) await store.acceptCommand(command.id);
    const record = await supervisor.getRun(command.runId);
    const result = this.#results.get(command.id) ?? (await this.#result(command, record));
    this.#results.set(command.id, result);
    await store.finishCommand(command.id, result, [commandEvent(command, record, result)]);
    this.#results.delete(command.id);
  }

  async #result(command: CommandRecord, record: RunRecord | null): Promise<CommandResult> {
    const { id, runId, actor, graceMs } = command;
    const { supervisor, whereabouts } = this.#parts;
    const failed = (error: string): CommandResult => ({ outcome: "failed", survivors: [], error });
    if (record === null) return failed("its record is gone");
    if ((await whereabouts.of(record)) !== null) return failed("it is not of this state directory");
    const words = { actor, requestId: id, ...(graceMs === null ? {} : { graceMs }) };
    try {
      const { outcome, survivors } = await supervisor.stop(runId, words);
      const ours = outcome === "ended-before" && wasEndedBy(command, await supervisor.getRun(runId));
      return { outcome: ours ? "gone" : outcome, survivors: [...survivors], error: null };
    } catch (error) {
      // Anything else may pass: a store that is away, a lease that was lost. Then it is tried again.
      if (error instanceof RunNotFound) return failed(error.message);
      throw error;
    }
  }
}

/** Taken up before, carried out, and not acknowledged: this gateway has died in between. */
function wasEndedBy({ acceptedAt, actor }: CommandRecord, record: RunRecord | null): boolean {
  return acceptedAt !== null && record?.exit?.reason === "manual-cancel" && record.exit.actor === actor;
}
