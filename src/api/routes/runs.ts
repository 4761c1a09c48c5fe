import { z } from "zod";
import { defaults } from "../../defaults.js";
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
