import { z } from "zod";
import type { RunRecord } from "../../model/run.js";
import { END_REASONS } from "../../model/enums.js";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import { emptyObject, flag, runParams } from "./common.js";

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

export const listRunsRoute = defineRoute({
  ...endpoints.listRuns,
  summary: "Runs, newest first",
  audience: "session",
  params: emptyObject,
  query: z.strictObject({
    /** Those that have ended, too. */
    all: flag.optional(),
    /** Those that were removed or cleared, too. */
    hidden: flag.optional(),
    session: z.string().optional(),
    agent: z.string().optional(),
    /** `key=value`; several are separated by commas. */
    label: z.string().optional(),
    limit: z.coerce.number().int().min(1).max(1_000).default(100),
    /** `next` of the previous page. */
    cursor: z
      .string()
      .regex(/^\d{1,15}\.\S{1,100}$/, "must be the `next` of an earlier page")
      .transform((text) => {
        const dot = text.indexOf(".");
        return { createdAt: Number(text.slice(0, dot)), runId: text.slice(dot + 1) };
      })
      .optional(),
  }),
  body: emptyObject,
  response: z.object({
    runs: z.array(runSchema),
    /** Why the store could not be read; `runs` then has only runs of this gateway's host. Null: `runs` has all. */
    storeAway: z.string().nullable(),
    /** Cursor of the next page; a page has at most `limit` runs and 2 MiB. Null: this is the last page. */
    next: z.string().nullable(),
  }),
});

export const getRunRoute = defineRoute({
  ...endpoints.getRun,
  summary: "One run's record",
  audience: "session",
  params: runParams,
  query: emptyObject,
  body: emptyObject,
  response: runSchema,
});

const processFields = {
  pid: z.int(),
  startTime: z.int(),
  uniqueId: z.string().nullable(),
  command: z.string(),
};

export const runProcessesRoute = defineRoute({
  ...endpoints.runProcesses,
  summary: "The live processes of a run",
  audience: "session",
  params: runParams,
  query: emptyObject,
  body: emptyObject,
  response: z.object({
    runId: z.string(),
    /** Verified: below the run's anchor, in its cgroup, or below its first process. */
    processes: z.array(
      z.object({
        ...processFields,
        parentPid: z.int(),
        sessionId: z.int(),
        state: z.string(),
        cpuMs: z.int(),
        rssKb: z.int(),
        /** TCP ports it listens on, of a service. */
        ports: z.array(z.int()),
      }),
    ),
    /** They carry the run's marker, and nothing verifies them. */
    claims: z.array(z.object(processFields)),
    /** Why there may be processes besides these; null: all were looked at. */
    unknown: z.string().nullable(),
  }),
});
