import type { Survivor } from "./process.js";

/** What became of a run that was to be stopped; `failed`: it could not even be tried, and the error says why. */
export type RemoteStopOutcome = "gone" | "ended-before" | "survivors" | "unknown" | "failed";

/** A stop that one gateway hands to another by the store. It is carried out at least once and acknowledged once. */
export interface RemoteStop {
  /** The request's: asked twice, it is the same command. */
  readonly id: string;
  readonly runId: string;
  /** The state directory whose gateway carries it out; of a run that does not say which, an instance. */
  readonly target: string;
  readonly kind: "stop";
  readonly actor: string;
  /** Null: the run's own. */
  readonly graceMs: number | null;
  /** Which gateway was asked. */
  readonly handedOverBy: string;
  /** On the store's clock, this and the next two. */
  readonly createdAt: number;
  /** When its target took it up; null: not yet. */
  readonly acceptedAt: number | null;
  readonly doneAt: number | null;
  /** Null until it is done, like the next two. */
  readonly outcome: RemoteStopOutcome | null;
  readonly survivors: readonly Survivor[];
  readonly error: string | null;
}

export type NewRemoteStop = Pick<
  RemoteStop,
  "id" | "runId" | "target" | "kind" | "actor" | "graceMs" | "handedOverBy"
>;

export interface RemoteStopResult {
  readonly outcome: RemoteStopOutcome;
  readonly survivors: readonly Survivor[];
  readonly error: string | null;
}
