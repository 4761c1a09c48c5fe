import type { ProcessIdentity, Residue } from "../../model/process.js";
import type { Emptiness, KillMode, LimitHit, RunKind, RunUsage } from "../../model/run.js";

/**
 * Describes a run in its directory (`scope` in `anchor.json`), so that it can be found by session, agent, label or task
 * if the store cannot be read. It selects runs; it proves nothing about processes.
 */
export interface RunScope {
  readonly sessionKey: string | null;
  readonly sessionId: string | null;
  readonly backendId: string | null;
  readonly agentId: string | null;
  readonly taskId: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly kind: RunKind;
  /** The command for display, redacted. */
  readonly command: string;
}

/** The scope in a run directory, and the tasks that were assigned to the run later. */
export interface DirectoryScope extends Omit<RunScope, "taskId" | "kind"> {
  /** Null if an older anchor wrote the directory; the run may have become a service since its start. */
  readonly kind: RunKind | null;
  readonly taskIds: readonly string[];
}

export interface FirstStop {
  readonly reason: string;
  readonly actor: string;
  readonly requestId: string;
}

/** `stop.json` */
export interface StopFile extends FirstStop {
  /** The anchor did not answer, so the run was to be stopped without it. */
  readonly withoutAnchor?: boolean;
}

export type LeaderStatus =
  | { readonly code: number; readonly signal: null }
  | { readonly code: null; readonly signal: number };

export interface SpawnFailure {
  readonly errno: number;
  readonly step: string;
  readonly message: string;
}

/** The range of a stream that an anchor kept at the end. */
export interface SpoolEnd {
  readonly start: number;
  readonly end: number;
  readonly dropped: number;
  /** Bytes that were written and are missing because a spool file was truncated or removed. Absent if none are. */
  readonly lost?: number;
}

/** The content of `exit.json`. */
export interface AnchorExit {
  readonly runId: string;
  readonly executed: boolean;
  readonly reason: string;
  readonly actor: string;
  readonly requestId: string;
  readonly leader: LeaderStatus | null;
  readonly spawnError: SpawnFailure | null;
  readonly residue: readonly Residue[];
  readonly residueCount: number;
  /** Number of processes besides the leader that were ended by TERM or KILL. Absent from older anchors. */
  readonly cleaned?: number | null;
  readonly killMode: KillMode;
  /** The tier at the end. A launcher that died meanwhile lowers it. Null if unknown. */
  readonly tier: string | null;
  readonly tierNote: string | null;
  /**
   * `unproven` if an operator abandoned the run (reason `lost`; then the residue lists the surviving processes), or if
   * no process of it was found and the boundary cannot prove that there is none (tiers `lineage` and `group`).
   */
  readonly emptiness: Emptiness;
  /** Why it is not proven, unless the run was abandoned. Absent from older anchors. */
  readonly emptinessNote?: string | null;
  readonly stdout: SpoolEnd;
  readonly stderr: SpoolEnd;
  readonly processes: number;
  readonly usage: Omit<RunUsage, "processes">;
  readonly limitHit: LimitHit | null;
  readonly durationMs: number;
  /** Wall-clock milliseconds; null if unknown. */
  readonly endedAt: number | null;
  /** Time of the last write to its spools, if the exit was read from its directory. */
  readonly lastOutputAt?: number | null;
}

export interface OutputSlice {
  /**
   * Offset of the first byte of `bytes`. It is higher than requested if older bytes were dropped or lost. If `bytes` is
   * empty, everything before it is lost and nothing follows now.
   */
  readonly offset: number;
  readonly bytes: Uint8Array;
  /** Bytes before `offset` that are missing because a spool file was truncated or removed. Absent if none are. */
  readonly lost?: number;
}

export interface CgroupRef {
  readonly path: string;
  readonly inode: string;
}

/** `anchor.json`: the identities that an anchor wrote. */
export interface RunIdentities {
  readonly anchor: ProcessIdentity;
  /** Null if there was none yet. */
  readonly root: ProcessIdentity | null;
  readonly cgroup: CgroupRef | null;
}

/** `swept.json`: the launcher ended the processes of a dead anchor. */
export interface SweptFile {
  readonly anchorSignal: number | null;
  readonly killed: number;
  readonly killMode: KillMode;
  readonly emptiness: "proven" | "unproven";
}

/** `silent.json`: the launcher found an anchor that did not run while no supervisor was connected. */
export interface SilentFile {
  /** Wall-clock milliseconds. */
  readonly at: number;
  readonly silentMs: number;
  readonly continued: boolean;
}

/** The files of a run whose anchor does not answer. */
export interface RunFiles {
  readonly exit: AnchorExit | null;
  readonly leader: LeaderStatus | null;
  readonly firstStop: StopFile | null;
  readonly swept: SweptFile | null;
  /** True if the directory is that of a warm anchor, which has not read START, hence no GO. */
  readonly neverStarted?: boolean;
}

export type StreamName = "stdout" | "stderr";

/**
 * Locates a run's directory. It stays with the instance that started the run, also if another instance owns the run.
 */
export interface RunAddress {
  readonly instanceId: string;
  readonly runId: string;
}
