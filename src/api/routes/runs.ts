import { runSchema } from "./schemas.js";
import { z } from "zod";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import { flag, pageLimit, runParams } from "./common.js";

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
