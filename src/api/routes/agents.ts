import { z } from "zod";
import { defaults } from "../../defaults.js";
import { endpoints } from "../endpoints.js";
import { emptyObject, runParams } from "./common.js";
import { execRoute, execFields, failureKind } from "./exec.js";
import { defineRoute } from "../route.js";
import { sessionSchema } from "./sessions.js";

const agentParams = z.object({ id: z.string().min(1).max(200) });
const commandFormSchema = z.object({
  argv: z.array(z.string()),
  /** Where it lies; null: it was not found. */
  executable: z.string().nullable(),
});

const agentSchema = z.object({
  id: z.string(),
  name: z.string(),
  from: z.enum(["built-in", "config"]),
  acp: commandFormSchema.nullable(),
  cli: commandFormSchema.extend({ output: z.string(), resumes: z.boolean() }).nullable(),
  install: z.string().nullable(),
});

export const listAgentsRoute = defineRoute({
  ...endpoints.listAgents,
  summary: "Agents that are known, and where their commands were found; nothing is executed",
  audience: "session",
  params: emptyObject,
  /** Absolute directories to search for agents, for the operator only. Default: the gateway's PATH. */
  query: z.strictObject({ path: z.string().max(8_192).optional() }),
  body: emptyObject,
  response: z.object({ agents: z.array(agentSchema) }),
});

export const checkAgentRoute = defineRoute({
  ...endpoints.checkAgent,
  summary: "Ask an agent's commands for their versions, each by a run of its own",
  audience: "session",
  params: agentParams,
  query: emptyObject,
  body: z.strictObject({ environment: execFields.environment, cwd: execFields.cwd }),
  response: z.object({
    agent: agentSchema,
    checks: z.array(
      z.object({
        forms: z.array(z.enum(["acp", "cli"])),
        executable: z.string().nullable(),
        /** Null: it did not say. */
        version: z.string().nullable(),
        failure: failureKind,
        runId: z.string().nullable(),
      }),
    ),
  }),
});

/** What an agent's command had to say. */
const resultSchema = z.object({
  text: z.string(),
  /** Null: it went well. */
  error: z.string().nullable(),
  /** What the agent calls the session. */
  agentSessionId: z.string().nullable(),
});

export const runAgentRoute = defineRoute({
  ...endpoints.runAgent,
  summary: "Give an agent's one-shot command a prompt, in a session of its own or in one that goes on",
  audience: "session",
  params: agentParams,
  query: emptyObject,
  body: z.strictObject({
    prompt: z
      .string()
      .min(1)
      .max(defaults.messageChars)
      .refine((text) => !text.includes("\0"), "must be text without NUL"),
    /** A session's id or key, the agent's own id of one, or `last`. */
    resume: z.string().min(1).max(256).optional(),
    environment: execFields.environment,
    cwd: execFields.cwd,
    umask: execFields.umask,
    labels: execFields.labels,
    timeoutMs: execFields.timeoutMs,
    graceMs: execFields.graceMs,
    limits: execFields.limits,
    /** As of `exec`; but its input is the prompt, and its output is kept, whoever has read it. */
    foreground: execFields.foreground,
    runId: execFields.runId,
    background: execFields.background,
    yieldMs: execFields.yieldMs,
    notify: execFields.notify,
    origin: execFields.origin,
    maxChars: execFields.maxChars,
  }),
  response: execRoute.response.extend({
    session: sessionSchema,
    /** Null: it goes on. */
    result: resultSchema.nullable(),
  }),
});

export const agentResultRoute = defineRoute({
  ...endpoints.agentResult,
  summary: "What an agent's one-shot command had to say, once it has ended",
  audience: "session",
  params: runParams,
  query: emptyObject,
  body: emptyObject,
  response: z.object({ session: sessionSchema, result: resultSchema.nullable() }),
});
