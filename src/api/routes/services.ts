import { z } from "zod";
import { defaults } from "../../defaults.js";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import { runParams } from "./common.js";
import { runSchema } from "./schemas.js";

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
