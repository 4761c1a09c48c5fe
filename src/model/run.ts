import type { ProcessIdentity } from "./process.js";

/** Every state but the last. */
export const OPEN_RUN_STATES = ["starting", "running", "exiting"] as const;
export type RunStateName = (typeof OPEN_RUN_STATES)[number] | "exited";
export type RunKind = "task" | "service";
export type RunIo = "pipe" | "pty";
export type OnEscape = "fail" | "sweep";
export type OnOrphan = "adopt" | "terminate";
export type Emptiness = "proven" | "unproven";
/** How processes were ended: one by one, or all of a cgroup at once. */
export type KillMode = "none" | "pid" | "cgroup";
export type LimitHit = "memory" | "pids";

export const END_REASONS = [
  "exit",
  "signal",
  "spawn-error",
  "manual-cancel",
  "overall-timeout",
  "no-output-timeout",
  "ownership-escape",
  "owner-lost",
  "lost",
  "shutdown",
] as const;
export type EndReason = (typeof END_REASONS)[number];

/** A process that outlived its leader. */
export interface Residue {
  /** 0: something lives that no list names. */
  readonly pid: number;
  readonly startTime: number;
  /** `hidden`: it exists, and /proc does not show it (hidepid). */
  readonly kind: "background" | "detached" | "migrated" | "foreign-uid" | "hidden" | "unkillable";
  /** Empty: hidden. */
  readonly command: string;
}

export interface RunExit {
  readonly reason: EndReason;
  /** Who asked for the end: `cli:alice`, `deadline`, `anchor`, …; empty when the command ended by itself. */
  readonly actor: string;
  /** The leader's own status, whatever the reason. */
  readonly code: number | null;
  readonly signal: string | null;
  /** Where the status comes from: the anchor's connection, its exit file, the leader file, or nowhere. */
  readonly source: "anchor" | "exit-file" | "leader-file" | "none";
  /** One sentence for a person, when code and reason do not say it all. */
  readonly detail: string | null;
  readonly errno: number | null;
  /** A process of it was killed at its memory limit, or a fork was refused at its limit of tasks. */
  readonly limitHit: LimitHit | null;
}

export interface RunPolicy {
  readonly graceMs: number;
  readonly settleMs: number;
  readonly drainMs: number;
  readonly killReportMs: number;
  readonly ownerLossMs: number;
  readonly onEscape: OnEscape;
  /** What a supervisor does with the run that takes it over from a dead one, while its anchor lives. */
  readonly onOrphan: OnOrphan;
  /** It belongs to a caller who waits for it; without one, the gateway that holds it ends it. */
  readonly callerBound: boolean;
}

export interface RunDeadlines {
  readonly overallMs: number | null;
  readonly noOutputMs: number | null;
}

export interface RunBoundary {
  readonly cgroup: string | null;
  readonly cgroupInode: string | null;
  /** Why a stronger boundary was not to be had. */
  readonly note: string | null;
}

/** What it may use at most; null: as much as there is. */
export interface RunLimits {
  /** Of all its processes together, page cache included. */
  readonly memoryBytes: number | null;
  /** Processes and threads at one time. */
  readonly pids: number | null;
  readonly cpus: number | null;
}

/** What only a service has. */
export interface ServiceFacts {
  /** Where it is to listen; null: nobody said. */
  readonly port: number | null;
  /** When one of its processes was first seen to listen there. */
  readonly readyAt: number | null;
}

export const NO_DEADLINES: RunDeadlines = { overallMs: null, noOutputMs: null };

export const NO_LIMITS: RunLimits = { memoryBytes: null, pids: null, cpus: null };

/** `cgroup`: the kernel counted all of the run. `reaped`: added up of processes that ended below the anchor. */
export type UsageSource = "cgroup" | "reaped";

export interface RunUsage {
  /** User and system. */
  readonly cpuMs: number;
  /** From a cgroup, of all its processes together, page cache included; otherwise of the largest single process. */
  readonly peakKb: number;
  /** How many were seen, not more than there were: who was waited for by a parent of its own is not counted. */
  readonly processes: number;
  /** The most processes and threads at one time; null: nobody counted. */
  readonly peakTasks: number | null;
  readonly source: { readonly cpu: UsageSource; readonly memory: UsageSource };
}

/** Who counted when nobody said: anchors and records from before there was a choice. */
export const REAPED_USAGE = { peakTasks: null, source: { cpu: "reaped", memory: "reaped" } } as const;

/** What another tool had on file of a process it started. No lease id, so it is believed only when all of it matches. */
export interface ImportedFacts {
  readonly pid: number;
  /** Of its words, however they were quoted: arguments may be secrets, and are not stored. */
  readonly commandHash: string;
  /** A directory: the running program, or the script it was given, must lie below it. */
  readonly wrapperRoot: string;
  /** Clock ticks since boot, when the other tool kept it. */
  readonly startTime: number | null;
}

/** The durable answer to: what is running, who owns it, how did it end. Times are wall-clock milliseconds. */
export interface RunRecord {
  readonly runId: string;
  readonly leaseId: string;
  readonly sessionKey: string | null;
  /** The session itself: a key may be taken again. Null: a key without a session, or neither. */
  readonly sessionId: string | null;
  readonly backendId: string | null;
  readonly agentId: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly kind: RunKind;
  readonly io: RunIo;
  /** For display: secrets redacted. */
  readonly command: string;
  readonly commandHash: string;
  readonly cwd: string;
  readonly hostId: string;
  readonly bootId: string;
  readonly pidNamespace: string;
  /** In which the start times of its processes were read. Null: not known (a former release), or the kernel has none. */
  readonly timeNamespace: string | null;
  /** The state directory it is kept in. Null: from before there could be several in a store; then its origin tells. */
  readonly stateId: string | null;
  readonly anchorPath: string;
  readonly anchor: ProcessIdentity | null;
  readonly root: ProcessIdentity | null;
  readonly processGroupId: number | null;
  readonly boundary: RunBoundary | null;
  readonly tier: string | null;
  readonly state: RunStateName;
  /** The instance that started it, in whose directory it lives. Never changes. */
  readonly originInstanceId: string;
  readonly ownerInstanceId: string;
  readonly leaseEpoch: number;
  /** On the store's clock, not the wall's. */
  readonly leaseExpiresAt: number;
  readonly deadlines: RunDeadlines;
  readonly policy: RunPolicy;
  readonly limits: RunLimits;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly lastOutputAt: number | null;
  readonly updatedAt: number;
  readonly endedAt: number | null;
  readonly exit: RunExit | null;
  readonly residue: readonly Residue[];
  readonly residueCount: number;
  readonly usage: RunUsage | null;
  readonly emptiness: Emptiness | null;
  /** Null: a task. */
  readonly service: ServiceFacts | null;
  /** Null: a run of ours. */
  readonly imported: ImportedFacts | null;
  /** Since when lists leave it out; null: they do not. */
  readonly hiddenAt: number | null;
}
