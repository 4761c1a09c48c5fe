import { z } from "zod";
import { flag, emptyObject, runParams } from "./common.js";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import { runSchema } from "../../gateway/contract/run-shape.js";

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
