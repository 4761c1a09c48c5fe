import { z } from "zod";
import { END_REASONS } from "./enums.js";

export const processIdentitySchema = z.object({
  pid: z.int(),
  /** Clock ticks since boot, as shown in the time namespace of the process that read it. */
  startTime: z.int(),
  /** The pidfd inode, unique per boot; null where the kernel has none. */
  uniqueId: z.string().nullable(),
});

export const survivorSchema = z.object({
  pid: z.int(),
  startTime: z.int(),
  kind: z.string(),
  command: z.string(),
});

export const residueSchema = z.object({
  /** 0: a process that no list names. */
  pid: z.int(),
  startTime: z.int(),
  /** `hidden`: the process exists, and /proc does not show it (hidepid). */
  kind: z.enum(["background", "detached", "migrated", "foreign-uid", "hidden", "unkillable"]),
  /** Empty: hidden. */
  command: z.string(),
});

/** A process that a turn started and that was alive after the turn. */
export const leftoverProcessSchema = processIdentitySchema.extend({ command: z.string() });

export const runExitSchema = z.object({
  reason: z.enum(END_REASONS),
  /** The requester of the end: `cli:alice`, `deadline`, `anchor`, …; empty when the command ended by itself. */
  actor: z.string(),
  /** The leader's own status, whatever the reason. */
  code: z.int().nullable(),
  signal: z.string().nullable(),
  /** Where the status comes from: the anchor's connection, its exit file, the leader file, or nowhere. */
  source: z.enum(["anchor", "exit-file", "leader-file", "none"]),
  /** One sentence for a person, when code and reason do not say it all. */
  detail: z.string().nullable(),
  errno: z.int().nullable(),
  /** A process was killed at the memory limit, or a fork was refused at the limit of tasks. */
  limitHit: z.enum(["memory", "pids"]).nullable(),
});

export const runPolicySchema = z.object({
  graceMs: z.number(),
  settleMs: z.number(),
  drainMs: z.number(),
  killReportMs: z.number(),
  ownerLossMs: z.number(),
  onEscape: z.enum(["fail", "sweep"]),
  /** The treatment by a supervisor that steals the lease while the anchor runs. */
  onOrphan: z.enum(["adopt", "terminate"]),
  /** The run belongs to a caller that waits for it. The gateway that owns the run stops it when the caller is gone. */
  callerBound: z.boolean(),
});

export const runDeadlinesSchema = z.object({
  overallMs: z.number().nullable(),
  noOutputMs: z.number().nullable(),
});

export const runBoundarySchema = z.object({
  cgroup: z.string().nullable(),
  /** Identifies the cgroup or the job, because another one may get the same name. */
  cgroupInode: z.string().nullable(),
  /** The name of the run's Job Object. Only on Windows. */
  jobId: z.string().optional(),
  /** Why a stronger boundary was not available. */
  note: z.string().nullable(),
});

/** Limits of a run; null: none. */
export const runLimitsSchema = z.object({
  /** The memory of all processes of the run together, page cache included. */
  memoryBytes: z.number().nullable(),
  /** Processes and threads at one time. */
  pids: z.int().nullable(),
  cpus: z.number().nullable(),
});

/** The facts that only a service has. */
export const serviceFactsSchema = z.object({
  /** The port that the service should listen on; null: not specified. */
  port: z.int().nullable(),
  /** When a process of the service was first seen to listen on the port. */
  readyAt: z.number().nullable(),
});

const usageSourceSchema = z.enum(["cgroup", "job", "reaped"]);

export const runUsageSchema = z.object({
  /** User and system. */
  cpuMs: z.number(),
  /** From a cgroup or job: of all processes together, page cache included. Otherwise: of the largest single process. */
  peakKb: z.number(),
  /** How many processes were seen. A process that its own parent waited for is not counted. */
  processes: z.int(),
  /** The most processes and threads at one time; null: not counted. */
  peakTasks: z.int().nullable(),
  /** `cgroup`, `job`: the kernel counted the whole run. `reaped`: the sum of processes that ended below the anchor. */
  source: z.object({ cpu: usageSourceSchema, memory: usageSourceSchema }),
});

/** The record of another tool about a process it started. There is no lease id, so all of it must match. */
export const importedFactsSchema = z.object({
  pid: z.int(),
  /** Hash of the arguments, without their quoting. Arguments may be secrets and are not stored. */
  commandHash: z.string(),
  /** The running program, or the script that it was given, must lie below this directory. */
  wrapperRoot: z.string(),
  /** Clock ticks since boot, if the other tool recorded it. */
  startTime: z.int().nullable(),
});

/** A run's record, field by field as it is stored. Times are wall-clock milliseconds. */
export const runSchema = z.object({
  runId: z.string(),
  leaseId: z.string(),
  sessionKey: z.string().nullable(),
  /** The session itself, because a key can be used again. Null: a key without a session, or neither. */
  sessionId: z.string().nullable(),
  backendId: z.string().nullable(),
  agentId: z.string().nullable(),
  labels: z.record(z.string(), z.string()),
  kind: z.enum(["task", "service"]),
  io: z.enum(["pipe", "pty"]),
  /** For display: secrets redacted. */
  command: z.string(),
  commandHash: z.string(),
  cwd: z.string(),
  hostId: z.string(),
  bootId: z.string(),
  pidNamespace: z.string(),
  /** The time namespace in which start times were read. Null: unknown (an older release), or the kernel has none. */
  timeNamespace: z.string().nullable(),
  /** The state directory of the run. Null: recorded before a store could have several; then `originInstanceId` decides. */
  stateId: z.string().nullable(),
  anchorPath: z.string(),
  anchor: processIdentitySchema.nullable(),
  root: processIdentitySchema.nullable(),
  processGroupId: z.int().nullable(),
  boundary: runBoundarySchema.nullable(),
  tier: z.string().nullable(),
  state: z.enum(["starting", "running", "exiting", "exited"]),
  /** The instance that started the run and has its directory. Never changes. */
  originInstanceId: z.string(),
  ownerInstanceId: z.string(),
  leaseEpoch: z.int(),
  /** On the store's clock, not the wall clock. */
  leaseExpiresAt: z.number(),
  deadlines: runDeadlinesSchema,
  policy: runPolicySchema,
  limits: runLimitsSchema,
  createdAt: z.number(),
  startedAt: z.number().nullable(),
  lastOutputAt: z.number().nullable(),
  updatedAt: z.number(),
  endedAt: z.number().nullable(),
  exit: runExitSchema.nullable(),
  residue: z.array(residueSchema),
  residueCount: z.int(),
  usage: runUsageSchema.nullable(),
  emptiness: z.enum(["proven", "unproven"]).nullable(),
  /** Null: a task. */
  service: serviceFactsSchema.nullable(),
  /** Null: a run that Holdfast started. */
  imported: importedFactsSchema.nullable(),
  /** Since when lists omit the run; null: lists show it. */
  hiddenAt: z.number().nullable(),
});
