import { z } from "zod";
import { defaults } from "../../defaults.js";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import { EXEC_ERRORS, execFields, execRoute, failureKind } from "./exec.js";
import { runParams, sessionSchema, textWithoutNul } from "./schemas.js";

const agentParams = z.object({ id: z.string().min(1).max(200) });
const commandFormSchema = z.object({
  argv: z.array(z.string()),
  /** Path of the program. Null: it was not found. */
  executable: z.string().nullable(),
});

const agentSchema = z
  .object({
    id: z.string(),
    name: z.string(),
    from: z.enum(["built-in", "config"]),
    acp: commandFormSchema
      .extend({
        /** The npm package that has the command, in the version that `fetch` runs. Null: none is known. */
        npm: z.object({ package: z.string(), version: z.string() }).nullable(),
      })
      .nullable(),
    cli: commandFormSchema.extend({ output: z.string(), resumes: z.boolean() }).nullable(),
    install: z.string().nullable(),
    /** How the entry was verified. */
    verified: z.string().nullable(),
  })
  .meta({ id: "Agent", description: "An agent of the catalogue, with the programs found for it." });

export const listAgentsRoute = defineRoute({
  ...endpoints.listAgents,
  summary: "List the agents of the catalogue and the programs found for them",
  audience: "session",
  /** `path`: absolute directories to search, for the operator only. Default: the gateway's PATH. */
  query: z.strictObject({ path: z.string().max(8_192).optional() }),
  response: z.object({ agents: z.array(agentSchema) }),
});

export const checkAgentRoute = defineRoute({
  ...endpoints.checkAgent,
  summary: "Run the programs of an agent to find out their versions",
  errors: EXEC_ERRORS,
  audience: "session",
  params: agentParams,
  body: z.strictObject({ environment: execFields.environment, cwd: execFields.cwd }),
  response: z.object({
    agent: agentSchema,
    checks: z.array(
      z.object({
        forms: z.array(z.enum(["acp", "cli"])),
        executable: z.string().nullable(),
        /** Null: the program did not print a version. */
        version: z.string().nullable(),
        failure: failureKind,
        runId: z.string().nullable(),
      }),
    ),
  }),
});

const resultSchema = z
  .object({
    text: z.string(),
    /** Null: the prompt succeeded. */
    error: z.string().nullable(),
    /** The agent's own id of the session. */
    agentSessionId: z.string().nullable(),
  })
  .meta({ id: "AgentResult", description: "The answer of a one-shot agent to its prompt." });

export const runAgentRoute = defineRoute({
  ...endpoints.runAgent,
  summary: "Run a one-shot agent with a prompt, in a new session or a resumed one",
  errors: [...EXEC_ERRORS, "SESSION_BUSY", "SESSION_CLOSED"],
  audience: "session",
  params: agentParams,
  body: z.strictObject({
    prompt: textWithoutNul(defaults.messageChars),
    /** The id or key of a session, the agent's own id of it, or `last`. */
    resume: z.string().min(1).max(256).optional(),
    environment: execFields.environment,
    cwd: execFields.cwd,
    umask: execFields.umask,
    labels: execFields.labels,
    timeoutMs: execFields.timeoutMs,
    graceMs: execFields.graceMs,
    limits: execFields.limits,
    /** As in `exec`, but the input is the prompt, and output that was read is kept. */
    foreground: execFields.foreground,
    runId: execFields.runId,
    background: execFields.background,
    yieldMs: execFields.yieldMs,
    notify: execFields.notify,
    origin: execFields.origin,
    deliver: execFields.deliver,
    maxChars: execFields.maxChars,
  }),
  response: execRoute.response.extend({
    session: sessionSchema,
    /** Null: the run has not ended. */
    result: resultSchema.nullable(),
  }),
});

export const agentResultRoute = defineRoute({
  ...endpoints.agentResult,
  summary: "Get the answer of a one-shot agent",
  audience: "session",
  params: runParams,
  response: z.object({ session: sessionSchema, result: resultSchema.nullable() }),
});
