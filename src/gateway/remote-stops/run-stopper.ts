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

/** The result of a stop; `result` is null while it is handed over. */
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

/** The state of a stop that was handed over to another gateway. */
export interface RemoteStopStatus {
  readonly id: string;
  readonly instanceId: string;
  readonly hostId: string;
  readonly hostName: string;
  /** The last heartbeat of that gateway. Null: never. */
  readonly lastHeardAt: number | null;
  /** That gateway has accepted the stop. */
  readonly accepted: boolean;
  readonly error: string | null;
}

export interface RunStopperResult {
  /** `handed-over`: the gateway of the run's host executes the stop when it runs. */
  readonly outcome: RunStopResult["outcome"] | "handed-over";
  readonly survivors: RunStopResult["survivors"];
  /** Null: the run belongs to this gateway. */
  readonly command: RemoteStopStatus | null;
}

export interface StopRunOptions extends Pick<CancelOptions, "graceMs" | "requestId"> {
  readonly actor: string;
  /** How long to wait until another gateway accepts the stop. */
  readonly waitMs?: number;
}

export interface RunStopperDeps {
  readonly supervisor: Pick<Supervisor, "stop" | "instanceId">;
  readonly store: RemoteStopStore;
  readonly runLocator: RunLocator;
}

/** The store sends no event when another gateway accepts a stop; a poll costs a millisecond. */
const POLL_MS = 100;

/** Stops any run of the store: its own through the anchor, others through the gateway that owns them. */
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
    // A repeated request waits for the pending stop.
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
      throw new BadInput("requestId", `${id} is the id of another request; nothing was done`);
    return found;
  }

  /** Waits until the stop is done, at most for the times to accept and to execute it. */
  async #awaitResult(
    id: string,
    waitMs: number,
    doneMs: number,
    disconnected: AbortSignal,
  ): Promise<RemoteStop> {
    const began = performance.now();
    for (;;) {
      const command = await this.#deps.store.getRemoteStop(id);
      if (command === null) throw new BadInput("requestId", `${id} was deleted meanwhile`);
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
