import { z } from "zod";
import type { AcpUpdate, NewAcpUpdate } from "../../model/acp/session-and-turn.js";
import type { RpcId } from "../wire/message.js";
import { parseParams } from "./operations.js";

/** A request of the agent that is answered later. It is stored, and the next gateway process continues with it. */
export interface DeferredRequest {
  readonly runId: string;
  readonly rpcId: RpcId;
  readonly method: string;
  /** Null: not stored. */
  readonly params: unknown;
  /** Makes a repeated execution after a crash use the same ids. */
  readonly seed: string;
  readonly turnId: string | null;
}

/** Stored as the data of an update. */
type LogEntry =
  | { readonly waiting: DeferredRequest }
  | { readonly answered: Pick<DeferredRequest, "runId" | "rpcId"> };

const MAX_TERMINAL_ID_CHARS = 100;
export const terminalParams = z.object({ terminalId: z.string().max(MAX_TERMINAL_ID_CHARS) });

export class DeferredRequests {
  readonly #requests = new Map<RpcId, DeferredRequest>();

  get list(): readonly DeferredRequest[] {
    return [...this.#requests.values()];
  }

  get(rpcId: RpcId): DeferredRequest | undefined {
    return this.#requests.get(rpcId);
  }

  /** Restores the requests of an agent from the log of its session. Returns the terminals that were released. */
  restore(log: readonly AcpUpdate[], agentRunId: string): ReadonlySet<string> {
    const released = new Set<string>();
    for (const { data } of log) {
      const { waiting, answered } = data as Partial<
        Extract<LogEntry, { waiting: unknown }> & Extract<LogEntry, { answered: unknown }>
      >;
      if (waiting?.runId === agentRunId) {
        this.#requests.set(waiting.rpcId, waiting);
        continue;
      }
      if (answered?.runId !== agentRunId) continue;
      const request = this.#requests.get(answered.rpcId);
      if (request?.method === "terminal/release")
        released.add(parseParams(terminalParams, request.params).terminalId);
      this.#requests.delete(answered.rpcId);
    }
    return released;
  }

  /** Returns the update to store. `storable`: the parameters as they may be stored. */
  add(request: DeferredRequest, at: number, storable: unknown = request.params): NewAcpUpdate {
    this.#requests.set(request.rpcId, request);
    return logUpdate(request, at, { waiting: { ...request, params: storable } });
  }

  /** Returns the update to store with the answer. */
  remove(request: DeferredRequest, at: number): NewAcpUpdate {
    const { runId, rpcId } = request;
    this.#requests.delete(rpcId);
    return logUpdate(request, at, { answered: { runId, rpcId } });
  }
}

function logUpdate({ turnId }: DeferredRequest, at: number, data: LogEntry): NewAcpUpdate {
  return { turnId, at, type: "client", data };
}
