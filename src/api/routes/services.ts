import { z } from "zod";
import { defaults } from "../../defaults.js";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import { emptyObject, runParams } from "./common.js";
import { runSchema } from "./runs.js";

export const port = z.int().min(1).max(65_535);
export const readyTimeoutMs = z.number().min(0).max(3_600_000).default(defaults.readyTimeoutMs);

/** What came of waiting for a service; `detail` says who listens on its port instead, as far as it can be seen. */
export const readinessSchema = z.object({
  state: z.enum(["ready", "ended", "timeout", "given-up"]),
  detail: z.string().nullable(),
});

export const readyRoute = defineRoute({
  ...endpoints.ready,
  summary: "Wait until one of a service's own processes listens on its port",
  audience: "session",
  params: runParams,
  query: emptyObject,
  body: z.strictObject({
    timeoutMs: readyTimeoutMs,
    /** When it is not ready in time, or the caller leaves before: stop it. */
    orStop: z.boolean().default(false),
  }),
  response: z.object({ run: runSchema, readiness: readinessSchema }),
});

export const adoptProcessRoute = defineRoute({
  ...endpoints.adoptProcess,
  summary: "Make a service of its own of a process inside a run, with all below it",
  audience: "operator",
  params: z.object({
    pid: z
      .string()
      .regex(/^[1-9]\d{0,9}$/, "is no process id")
      .transform(Number),
  }),
  query: emptyObject,
  body: emptyObject,
  response: z.object({
    run: runSchema,
    /** The run it came out of. */
    from: z.string(),
    warnings: z.array(z.string()),
  }),
});

export const adoptRunRoute = defineRoute({
  ...endpoints.adoptRun,
  summary: "Make a service of a running task: nobody's leaving ends it any more",
  audience: "session",
  params: runParams,
  query: emptyObject,
  body: z.strictObject({
    /** Else the deadlines of the task are lifted. */
    keepTimeouts: z.boolean().default(false),
  }),
  response: runSchema,
});
