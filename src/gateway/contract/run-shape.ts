import { z } from "zod";
import { END_REASONS, type RunRecord } from "../../model/run.js";

const identitySchema = z.object({
  pid: z.int(),
  startTime: z.int(),
  uniqueId: z.string().nullable(),
});

const residueSchema = z.object({
  pid: z.int(),
  startTime: z.int(),
  kind: z.enum(["background", "detached", "migrated", "foreign-uid", "hidden", "unkillable"]),
  command: z.string(),
});

const usageSource = z.enum(["cgroup", "reaped"]);

/** A run's record, field by field as it is stored. */
export const runSchema: z.ZodType<RunRecord> = z.object({
  runId: z.string(),
  leaseId: z.string(),
  sessionKey: z.string().nullable(),
  sessionId: z.string().nullable(),
  backendId: z.string().nullable(),
  agentId: z.string().nullable(),
  labels: z.record(z.string(), z.string()),
  kind: z.enum(["task", "service"]),
  io: z.enum(["pipe", "pty"]),
  command: z.string(),
  commandHash: z.string(),
  cwd: z.string(),
  hostId: z.string(),
  bootId: z.string(),
  pidNamespace: z.string(),
  timeNamespace: z.string().nullable(),
  stateId: z.string().nullable(),
  anchorPath: z.string(),
  anchor: identitySchema.nullable(),
  root: identitySchema.nullable(),
  processGroupId: z.int().nullable(),
  boundary: z
    .object({
      cgroup: z.string().nullable(),
      cgroupInode: z.string().nullable(),
      note: z.string().nullable(),
    })
    .nullable(),
  tier: z.string().nullable(),
  state: z.enum(["starting", "running", "exiting", "exited"]),
  originInstanceId: z.string(),
  ownerInstanceId: z.string(),
  leaseEpoch: z.int(),
  leaseExpiresAt: z.number(),
  deadlines: z.object({ overallMs: z.number().nullable(), noOutputMs: z.number().nullable() }),
  policy: z.object({
    graceMs: z.number(),
    settleMs: z.number(),
    drainMs: z.number(),
    killReportMs: z.number(),
    ownerLossMs: z.number(),
    onEscape: z.enum(["fail", "sweep"]),
    onOrphan: z.enum(["adopt", "terminate"]),
    callerBound: z.boolean(),
  }),
  limits: z.object({
    memoryBytes: z.number().nullable(),
    pids: z.int().nullable(),
    cpus: z.number().nullable(),
  }),
  createdAt: z.number(),
  startedAt: z.number().nullable(),
  lastOutputAt: z.number().nullable(),
  updatedAt: z.number(),
  endedAt: z.number().nullable(),
  exit: z
    .object({
      reason: z.enum(END_REASONS),
      actor: z.string(),
      code: z.int().nullable(),
      signal: z.string().nullable(),
      source: z.enum(["anchor", "exit-file", "leader-file", "none"]),
      detail: z.string().nullable(),
      errno: z.int().nullable(),
      limitHit: z.enum(["memory", "pids"]).nullable(),
    })
    .nullable(),
  residue: z.array(residueSchema),
  residueCount: z.int(),
  usage: z
    .object({
      cpuMs: z.number(),
      peakKb: z.number(),
      processes: z.int(),
      peakTasks: z.int().nullable(),
      source: z.object({ cpu: usageSource, memory: usageSource }),
    })
    .nullable(),
  emptiness: z.enum(["proven", "unproven"]).nullable(),
  service: z.object({ port: z.int().nullable(), readyAt: z.number().nullable() }).nullable(),
  imported: z
    .object({
      pid: z.int(),
      commandHash: z.string(),
      wrapperRoot: z.string(),
      startTime: z.int().nullable(),
    })
    .nullable(),
  hiddenAt: z.number().nullable(),
});
