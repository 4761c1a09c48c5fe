import { z } from "zod";
import { defaults } from "../../defaults.js";
import { processIdentitySchema } from "../../model/run-schema.js";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import { flag, pageLimit, runParams, runSchema } from "./schemas.js";

export const listRunsRoute = defineRoute({
  ...endpoints.listRuns,
  summary: "List runs, newest first",
  audience: "session",
  query: z.strictObject({
    /** Include ended runs. */
    all: flag.optional(),
    /** Include removed runs. */
    hidden: flag.optional(),
    session: z.string().optional(),
    agent: z.string().optional(),
    /** `key=value`, or several separated by commas. */
    label: z.string().optional(),
    limit: pageLimit(),
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
  response: z.object({
    runs: z.array(runSchema),
    /** Why the store could not be read; `runs` then has only runs of this gateway's host. Null: the store was read. */
    storeAway: z.string().nullable(),
    /** Cursor of the next page; a page has at most `limit` runs and 2 MiB. Null: this is the last page. */
    next: z.string().nullable(),
  }),
});

/** A live process that is a verified member of a run. */
const liveProcessSchema = z.object({
  identity: processIdentitySchema,
  parentPid: z.int(),
  sessionId: z.int(),
  state: z.string(),
  cpuMs: z.int(),
  rssKb: z.int(),
  command: z.string(),
  /** TCP ports that it listens on, if a run of the answer is a service. */
  ports: z.array(z.int()),
});

const commandOfProcessSchema = z.object({ identity: processIdentitySchema, command: z.string() });

export const viewRunsRoute = defineRoute({
  ...endpoints.viewRuns,
  summary: "The runs of a table, with their hosts and processes",
  audience: "operator",
  query: z.strictObject({
    /** Include runs that have ended or were removed. */
    all: flag.optional(),
    /** Include the live processes of open runs. */
    processes: flag.optional(),
    /** Only the processes: no runs, no hosts, and nothing about runs without a state directory. */
    brief: flag.optional(),
    limit: pageLimit(1_000),
  }),
  response: z.object({
    runs: z.array(runSchema),
    /** There are older runs. An answer has at most `limit` runs and 2 MiB of records. */
    more: z.boolean(),
    hosts: z.array(
      z.object({
        hostId: z.string(),
        name: z.string(),
        platform: z.string(),
        firstSeenAt: z.number(),
        lastSeenAt: z.number(),
      }),
    ),
    /** The time on the clock of the leases, and whether every host uses that clock. */
    now: z.number(),
    shared: z.boolean(),
    /** The machine of the gateway, with the ids that run records have. */
    machine: z.object({
      hostId: z.string(),
      bootId: z.string(),
      pidNamespace: z.string(),
      timeNamespace: z.string().nullable(),
    }),
    /** Why the store could not be read; `runs` then has only runs of this gateway's host. Null: the store was read. */
    storeAway: z.string().nullable(),
    /** Processes by run id. Null: not requested. */
    processes: z
      .record(
        z.string(),
        z.object({
          processes: z.array(liveProcessSchema),
          claims: z.array(commandOfProcessSchema),
          unknown: z.string().nullable(),
        }),
      )
      .nullable(),
    /** Live runs whose state directory was removed. Empty if processes were not requested. */
    withoutState: z.array(
      z.object({
        runId: z.string(),
        instanceId: z.string(),
        directory: z.string().nullable(),
        anchor: processIdentitySchema.nullable(),
        processes: z.array(commandOfProcessSchema),
      }),
    ),
  }),
});

export const getRunRoute = defineRoute({
  ...endpoints.getRun,
  summary: "Get the record of a run",
  audience: "session",
  params: runParams,
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
  summary: "List the live processes of a run",
  audience: "session",
  params: runParams,
  response: z.object({
    runId: z.string(),
    /** Verified members: descendants of the anchor or the leader, or processes in the run's cgroup. */
    processes: z.array(
      z.object({
        ...processFields,
        parentPid: z.int(),
        sessionId: z.int(),
        state: z.string(),
        cpuMs: z.int(),
        rssKb: z.int(),
        /** TCP ports that it listens on. Only of services. */
        ports: z.array(z.int()),
      }),
    ),
    /** Processes with the run's environment marker that nothing else connects with the run. */
    claims: z.array(z.object(processFields)),
    /** Why there may be more processes. Null: the lists are complete. */
    unknown: z.string().nullable(),
  }),
});

export const port = z.int().min(1).max(65_535);
export const readyTimeoutMs = z.number().min(0).max(3_600_000).default(defaults.readyTimeoutMs);

export const readinessSchema = z
  .object({
    state: z.enum(["ready", "ended", "timeout", "given-up"]),
    /** The process that listens on the port instead, if it is known. */
    detail: z.string().nullable(),
  })
  .meta({ id: "Readiness", description: "The result of waiting until a service listens on its port." });

export const readyRoute = defineRoute({
  ...endpoints.ready,
  summary: "Wait until a process of a service listens on its port",
  audience: "session",
  params: runParams,
  body: z.strictObject({
    timeoutMs: readyTimeoutMs,
    /** Stop the service if it is not ready in time, or if the caller disconnects before. */
    orStop: z.boolean().default(false),
  }),
  response: z.object({ run: runSchema, readiness: readinessSchema }),
});

export const adoptProcessRoute = defineRoute({
  ...endpoints.adoptProcess,
  summary: "Move a process and its descendants out of its run into a service of its own",
  errors: ["NOT_OURS", "NOT_ADOPTED"],
  audience: "operator",
  params: z.object({
    pid: z
      .string()
      .regex(/^[1-9]\d{0,9}$/, "is not a process id")
      .transform(Number),
  }),
  response: z.object({
    run: runSchema,
    /** Id of the run that the process came from. */
    from: z.string(),
    warnings: z.array(z.string()),
  }),
});

export const adoptRunRoute = defineRoute({
  ...endpoints.adoptRun,
  summary: "Make a service of a running command: it keeps running when its caller or gateway ends",
  errors: ["NOT_ADOPTED"],
  audience: "session",
  params: runParams,
  body: z.strictObject({
    /** Keep the deadlines of the run. */
    keepTimeouts: z.boolean().default(false),
  }),
  response: runSchema,
});
