/** Which case a record is. The order is that of `decide`. */
export type Row =
  | "healthy"
  | "elsewhere"
  | "exit-file"
  | "other-boot"
  | "stalled"
  | "imported"
  | "anchor-alive"
  | "never-executed"
  | "unseen"
  | "root-alive"
  | "detached-orphaned"
  | "swept"
  | "unverifiable";
export type Action =
  /** Not ours to touch, or not now. */
  | "leave"
  /** End it on record as its anchor says. */
  | "finalize"
  /** End it on record: nothing of it ever ran. */
  | "spawn-error"
  /** Attach to its anchor under a new epoch, and go on. */
  | "continue"
  /** The same after taking it over from a dead owner. */
  | "adopt"
  /** Take it over from a dead owner, and stop it. */
  | "terminate"
  /** Its anchor is dead: end what is verifiably left, then `lose`. */
  | "sweep"
  /** End it on record as lost, signalling nobody. */
  | "lose";
export interface Decision {
  readonly row: Row;
  readonly action: Action;
  /** One clause for a person. */
  readonly why: string;
}

export interface Decided extends Decision {
  readonly runId: string;
}
