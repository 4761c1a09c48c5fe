import { setTimeout } from "node:timers/promises";
import { defaults } from "../../defaults.js";
import { BadInput, type FarGateway } from "../../errors.js";
import { newRequestId } from "../../model/ids.js";
import type { NewRemoteStop, RemoteStop, RemoteStopResult } from "../../model/gateway.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";
import type { RemoteStopStore } from "../../store/gateways/store.js";
import type { RunStopResult, Supervisor } from "../../supervisor/api.js";
import type { CancelOptions } from "../../supervisor/run-options.js";
import type { RunLocator } from "../peers/locators.js";

/** It was handed over (`result` null), or this came of it. */
export function remoteStopEvent(
  { id, runId, actor, handedOverBy, target }: NewRemoteStop,
  record: Pick<RunRecord, "root"> | null,
  result: RemoteStopResult | null,
): NewRunEvent {
  const { outcome = null, error = null } = result ?? {};
  return {
    runId,
    type: "command",
    at: Date.now(),
    rootPid: record?.root?.pid ?? null,
    descendants: 0,
    data: { id, actor, by: handedOverBy, target, outcome, error },
  };
}

/** Where a stop went whose run is elsewhere, and how far it has come. */
export interface RemoteStopStatus {
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

export interface RunStopperResult {
  /** `handed-over`: not yet carried out; it will be, when its host's gateway is there. */
  readonly outcome: RunStopResult["outcome"] | "handed-over";
  readonly survivors: RunStopResult["survivors"];
  /** Null: the run is this gateway's own. */
  readonly command: RemoteStopStatus | null;
}

export interface StopRunOptions extends Pick<CancelOptions, "graceMs" | "requestId"> {
  readonly actor: string;
  /** How long another gateway may take to take it up. */
  readonly waitMs?: number;
}

export interface RunStopperDeps {
  readonly supervisor: Pick<Supervisor, "stop" | "instanceId">;
  readonly store: RemoteStopStore;
  readonly runLocator: RunLocator;
}

/** Nobody is told when another gateway has taken something up; a look costs a millisecond. */
const POLL_MS = 100;

/** Stops any run of the store: its own through its anchor, another's through the gateway that has it. */
export class RunStopper {
  readonly #deps: RunStopperDeps;

  constructor(deps: RunStopperDeps) {
    this.#deps = deps;
  }

  async stop(
    record: RunRecord,
    options: StopRunOptions,
    disconnected: AbortSignal,
  ): Promise<RunStopperResult> {
    const { supervisor, runLocator } = this.#deps;
    const remoteGateway = await runLocator.remoteGatewayOf(record);
    const { waitMs = defaults.commandAcceptMs, ...asked } = options;
    if (remoteGateway === null) return { ...(await supervisor.stop(record.runId, asked)), command: null };
    if (record.state === "exited") return { outcome: "ended-before", survivors: [], command: null };
    const { id } = await this.#sendCommand(record, remoteGateway, asked);
    const graceMs = asked.graceMs ?? record.policy.graceMs;
    const doneMs = graceMs + record.policy.killReportMs + record.policy.drainMs;
    return stopResultOf(await this.#awaitResult(id, waitMs, doneMs, disconnected), remoteGateway);
  }

  async #sendCommand(
    record: RunRecord,
    remoteGateway: FarGateway,
    options: StopRunOptions,
  ): Promise<RemoteStop> {
    const { supervisor, store } = this.#deps;
    const { runId } = record;
    const target = record.stateId ?? remoteGateway.instanceId;
    const { actor, requestId: id = newRequestId(), graceMs = null } = options;
    // Somebody who asks again and again waits for the one that is on its way.
    const waiting = await store.listRemoteStopsOfRun(runId);
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
    await store.insertRemoteStop(command, [remoteStopEvent(command, record, null)]);
    const found = await store.getRemoteStop(id);
    if (found?.runId !== runId)
      throw new BadInput("requestId", `${id} was another request's id; nothing was done`);
    return found;
  }

  /** Until it is done, or it would be time: no longer than it may take to be taken up, and then to be done. */
  async #awaitResult(
    id: string,
    waitMs: number,
    doneMs: number,
    disconnected: AbortSignal,
  ): Promise<RemoteStop> {
    const began = performance.now();
    for (;;) {
      const command = await this.#deps.store.getRemoteStop(id);
      if (command === null) throw new BadInput("requestId", `${id} has been forgotten meanwhile`);
      const passed = performance.now() - began;
      const enough = waitMs + (command.acceptedAt === null ? 0 : doneMs);
      if (command.doneAt !== null || disconnected.aborted || passed > enough) return command;
      await setTimeout(POLL_MS, undefined, { signal: disconnected }).catch(() => undefined);
    }
  }
}

function stopResultOf(
  { id, acceptedAt, outcome, survivors, error }: RemoteStop,
  { instanceId, hostId, hostName, heartbeatAt }: FarGateway,
): RunStopperResult {
  const accepted = acceptedAt !== null;
  const command = { id, instanceId, hostId, hostName, lastHeardAt: heartbeatAt, accepted, error };
  if (outcome === null) return { outcome: "handed-over", survivors: [], command };
  return { outcome: outcome === "failed" ? "unknown" : outcome, survivors, command };
}
