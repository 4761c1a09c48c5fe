import type { IncomingMessage } from "node:http";
import { json } from "node:stream/consumers";
import { setTimeout } from "node:timers/promises";
import type { ParsedRequestOf, ResponseOf } from "../../api/contract.js";
import { defaults } from "../../defaults.js";
import {
  BadInput,
  type FarGateway,
  PeerUnreachable,
  RunNotFound,
  StoreUnreadable,
  SupervisorClosed,
} from "../../errors.js";
import type { NewRemoteStop, RemoteStop, RemoteStopResult } from "../../model/gateway.js";
import { newRequestId } from "../../model/ids.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";
import type { Requester } from "../../sessions/requester.js";
import type { RemoteStopStore } from "../../store/gateways/contract.js";
import type { Supervisor } from "../../supervisor/api.js";
import type { CancelOptions } from "../../supervisor/check-options.js";
import type { RunLocator } from "./run-and-session-locators.js";
import { onBehalfOfHeader, Peer, type PeerDirectory, type PeerErrorFactory } from "./peer.js";

/** The result of a stop; `result` is null while it is handed over. */
function remoteStopEvent(
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

/** `command` null: the run belongs to this gateway. */
type RunStopperResult = Omit<ResponseOf<"kill">, "run">;

interface StopRunOptions extends Pick<CancelOptions, "graceMs" | "requestId"> {
  readonly actor: string;
  /** How long to wait until another gateway accepts the stop. */
  readonly waitMs?: number;
}

interface RunStopperDeps {
  readonly supervisor: Pick<Supervisor, "stop" | "instanceId">;
  readonly store: RemoteStopStore;
  readonly runLocator: RunLocator;
  readonly peerDirectory: Pick<PeerDirectory, "reachable">;
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
    if (remoteGateway === null) {
      const { outcome, survivors } = await supervisor.stop(record.runId, asked);
      return { outcome, survivors: [...survivors], command: null };
    }
    if (record.state === "exited") return { outcome: "ended-before", survivors: [], command: null };
    const { id } = await this.#sendCommand(record, remoteGateway, asked);
    const graceMs = asked.graceMs ?? record.policy.graceMs;
    const doneMs = graceMs + record.policy.killReportMs + record.policy.drainMs;
    return stopResultOf(await this.#awaitResult(id, waitMs, doneMs, disconnected), remoteGateway);
  }

  /**
   * Stops a run whose record cannot be read: sends the stop to every known peer, and the peer that holds the run stops it.
   * Rejects with StoreUnreadable if no peer holds the run.
   */
  async stopThroughPeers(
    requester: Requester,
    runId: string,
    body: ParsedRequestOf<"kill">["body"],
    readError: unknown,
  ): Promise<ResponseOf<"kill">> {
    const { peerDirectory, supervisor } = this.#deps;
    const stops = peerDirectory.reachable().map(async (gateway) => {
      const onFailure: PeerErrorFactory = (why, how) => new PeerUnreachable(runId, gateway, why, how);
      return stopAtPeer(new Peer(supervisor.instanceId, gateway, onFailure), requester, runId, body);
    });
    return Promise.any(stops).catch(() => {
      throw new StoreUnreadable(runId, readError);
    });
  }

  async #sendCommand(
    record: RunRecord,
    remoteGateway: FarGateway,
    options: StopRunOptions,
  ): Promise<RemoteStop> {
    const { supervisor, store } = this.#deps;
    const { runId } = record;
    const { instanceId: handedOverBy } = supervisor;
    const target = record.stateId ?? remoteGateway.instanceId;
    const { actor, requestId: id = newRequestId(), graceMs = null } = options;
    // A repeated request waits for the pending stop.
    const waiting = await store.listRemoteStopsOfRun(runId);
    const same = waiting.find((each) => each.target === target && each.graceMs === graceMs);
    if (same !== undefined) return same;
    const command = { id, runId, target, kind: "stop", actor, graceMs, handedOverBy } as const;
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
  return { outcome: outcome === "failed" ? "unknown" : outcome, survivors: [...survivors], command };
}

async function stopAtPeer(
  peer: Peer,
  requester: Requester,
  runId: string,
  body: ParsedRequestOf<"kill">["body"],
): Promise<ResponseOf<"kill">> {
  const text = JSON.stringify(body);
  const headers = {
    ...onBehalfOfHeader(requester),
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(text)),
  };
  const request = peer.request("POST", `/v1/runs/${runId}/kill`, headers, () => false);
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    request.once("response", resolve);
    request.on("error", reject);
    request.end(text);
  });
  const said = await json(answer);
  if (answer.statusCode !== 200) throw peer.unreachableError(`it answered ${answer.statusCode ?? 0}`);
  return said as ResponseOf<"kill">;
}

interface RemoteStopExecutorDeps {
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
