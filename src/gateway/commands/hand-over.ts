import { setTimeout } from "node:timers/promises";
import { defaults } from "../../defaults.js";
import { BadInput, type FarGateway } from "../../errors.js";
import type { CommandRecord } from "../../store/command-record.js";
import type { CommandStore } from "../../store/command-store.js";
import type { RunRecord } from "../../store/run-record.js";
import type { CancelOptions, Stopped, Supervisor } from "../../supervisor/api.js";
import { newRequestId } from "../../supervisor/ids.js";
import type { Whereabouts } from "../peers/whereabouts.js";
import { commandEvent } from "./command-event.js";

/** Where a stop went whose run is elsewhere, and how far it has come. */
export interface HandedOver {
  readonly id: string;
  readonly instanceId: string;
  readonly hostId: string;
  readonly hostName: string;
  /** When the gateway there was last heard of; null: never. */
  readonly lastHeardAt: number | null;
  /** It has been taken up there. */
  readonly accepted: boolean;
  readonly error: string | null;
}

export interface StopAnswer {
  /** `handed-over`: not yet carried out; it will be, when its host's gateway is there. */
  readonly outcome: Stopped["outcome"] | "handed-over";
  readonly survivors: Stopped["survivors"];
  /** Null: the run is this gateway's own. */
  readonly command: HandedOver | null;
}

export interface StopWords extends Pick<CancelOptions, "graceMs" | "requestId"> {
  readonly actor: string;
  /** How long another gateway may take to take it up. */
  readonly waitMs?: number;
}

export interface StopsParts {
  readonly supervisor: Pick<Supervisor, "stop" | "instanceId">;
  readonly store: CommandStore;
  readonly whereabouts: Whereabouts;
}

/** Nobody is told when another gateway has taken something up; a look costs a millisecond. */
const LOOK_MS = 100;

/** Stops any run of the store: its own through its anchor, another's through the gateway that has it. */
export class Stops {
  readonly #parts: StopsParts;

  constructor(parts: StopsParts) {
    this.#parts = parts;
  }

  async stop(record: RunRecord, words: StopWords, gone: AbortSignal): Promise<StopAnswer> {
    const { supervisor, whereabouts } = this.#parts;
    const far = await whereabouts.of(record);
    const { waitMs = defaults.commandAcceptMs, ...asked } = words;
    if (far === null) return { ...(await supervisor.stop(record.runId, asked)), command: null };
    if (record.state === "exited") return { outcome: "ended-before", survivors: [], command: null };
    const { id } = await this.#handOver(record, far, asked);
    const graceMs = asked.graceMs ?? record.policy.graceMs;
    const doneMs = graceMs + record.policy.killReportMs + record.policy.drainMs;
    return answerOf(await this.#awaited(id, waitMs, doneMs, gone), far);
  }

  async #handOver(record: RunRecord, far: FarGateway, words: StopWords): Promise<CommandRecord> {
    const { supervisor, store } = this.#parts;
    const { runId } = record;
    const target = record.stateId ?? far.instanceId;
    const { actor, requestId: id = newRequestId(), graceMs = null } = words;
    // Somebody who asks again and again waits for the one that is on its way.
    const waiting = await store.commandsOf(runId);
    const same = waiting.find((each) => each.target === target && each.graceMs === graceMs);
    if (same !== undefined) return same;
    const command = {
      id,
      runId,
      target,
      kind: "stop",
      actor,
      graceMs,
      handedOverBy: supervisor.instanceId,
    } as const;
    await store.insertCommand(command, [commandEvent(command, record, null)]);
    const found = await store.getCommand(id);
    if (found?.runId !== runId)
      throw new BadInput("requestId", `${id} was another request's id; nothing was done`);
    return found;
  }

  /** Until it is done, or it would be time: no longer than it may take to be taken up, and then to be done. */
  async #awaited(id: string, waitMs: number, doneMs: number, gone: AbortSignal): Promise<CommandRecord> {
    const began = performance.now();
    for (;;) {
      const command = await this.#parts.store.getCommand(id);
      if (command === null) throw new BadInput("requestId", `${id} has been forgotten meanwhile`);
      const passed = performance.now() - began;
      const enough = waitMs + (command.acceptedAt === null ? 0 : doneMs);
      if (command.doneAt !== null || gone.aborted || passed > enough) return command;
      await setTimeout(LOOK_MS, undefined, { signal: gone }).catch(() => undefined);
    }
  }
}

function answerOf(
  { id, acceptedAt, outcome, survivors, error }: CommandRecord,
  { instanceId, hostId, hostName, heartbeatAt }: FarGateway,
): StopAnswer {
  const accepted = acceptedAt !== null;
  const command = { id, instanceId, hostId, hostName, lastHeardAt: heartbeatAt, accepted, error };
  if (outcome === null) return { outcome: "handed-over", survivors: [], command };
  return { outcome: outcome === "failed" ? "unknown" : outcome, survivors, command };
}
