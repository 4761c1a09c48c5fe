import type { StreamName } from "../anchor/host.js";
import type { EndReason, RunLimits } from "../model/run.js";

/** Left out or null: none. */
export type AskedLimits = {
  readonly [Limit in keyof RunLimits]?: number | null | undefined;
};

export interface CancelOptions {
  readonly reason?: Extract<
    EndReason,
    "manual-cancel" | "overall-timeout" | "no-output-timeout" | "shutdown"
  >;
  readonly actor?: string;
  readonly requestId?: string;
  /** 0: kill at once. */
  readonly graceMs?: number;
}

export interface ReadyOptions {
  readonly timeoutMs?: number;
  /** Aborting ends the waiting. */
  readonly signal?: AbortSignal;
}

export interface AdoptOptions {
  readonly actor?: string;
  /** Default false: the deadlines of a task are lifted. */
  readonly keepTimeouts?: boolean;
}

export interface ReadOptions {
  /** Start here instead of at the oldest byte kept. */
  readonly offset?: number;
  readonly maxBytes?: number;
}

export interface FollowOptions {
  readonly streams?: readonly StreamName[];
  readonly offsets?: Partial<Record<StreamName, number>>;
  /** Free what has been yielded as soon as the next chunk is asked for (back-pressure streams). */
  readonly ack?: boolean;
  /** Aborting ends the iteration, without an error. */
  readonly signal?: AbortSignal;
}
