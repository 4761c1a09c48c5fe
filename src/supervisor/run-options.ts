import type { StreamName } from "../anchor/host.js";
import type { EndReason, RunLimits } from "../model/run.js";

/** Absent or null: no limit. */
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
  /** Aborting ends the wait. */
  readonly signal?: AbortSignal;
}

export interface AdoptOptions {
  readonly actor?: string;
  /** Default false: the deadlines of the task are switched off. */
  readonly keepTimeouts?: boolean;
}

export interface ReadOptions {
  /** Default: the oldest stored byte. */
  readonly offset?: number;
  readonly maxBytes?: number;
}

export interface FollowOptions {
  readonly streams?: readonly StreamName[];
  readonly offsets?: Partial<Record<StreamName, number>>;
  /** Acknowledge a chunk when the next one is requested (back-pressure streams). */
  readonly ack?: boolean;
  /** Aborting ends the iteration without an error. */
  readonly signal?: AbortSignal;
}
