import { z } from "zod";
import { agentReportSchema } from "../../model/acp/agent-reported-state.js";
import { agentSettingsSchema } from "../../model/acp/agent-settings.js";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import { TURN_ERRORS } from "./acp-sessions.js";
import { acpSessionSchema } from "./schemas.js";

export const acpSetRoute = defineRoute({
  ...endpoints.acpSet,
  summary: "Change the model, mode or config options of an agent's session",
  errors: TURN_ERRORS,
  /** A session may change only the sessions below it. */
  audience: "session",
  params: z.object({ id: z.string().min(1).max(200) }),
  body: agentSettingsSchema.refine(
    ({ model, mode, options = {} }) =>
      model !== undefined || mode !== undefined || Object.keys(options).length > 0,
    "give a model, a mode or an option",
  ),
  response: z.object({ session: acpSessionSchema, agentState: agentReportSchema.nullable() }),
});

/** The agent that a request starts. */
const startedAgent = {
  /** An agent of the catalogue. */
  agent: z.string().min(1).max(200).optional(),
  /** Any command that speaks ACP, instead of `agent`. */
  argv: z.array(z.string().max(65_536)).min(1).max(1_000).optional(),
  /** Where the agent is started. */
  cwd: z.string().min(1).max(4_096),
  /** The caller's environment; it is not stored. */
  environment: z.record(z.string(), z.string()).optional(),
};

const ONE_AGENT_ERROR = { message: "give either agent or argv", path: ["agent"] };

function namesOneAgent({
  agent,
  argv,
}: {
  readonly agent?: string | undefined;
  readonly argv?: readonly string[] | undefined;
}): boolean {
  return (agent === undefined) !== (argv === undefined);
}

export const acpAgentSessionsRoute = defineRoute({
  ...endpoints.acpAgentSessions,
  summary: "Start an agent, list the sessions that it has stored itself, and end it",
  errors: TURN_ERRORS,
  audience: "operator",
  body: z
    .strictObject({
      ...startedAgent,
      /** Only sessions of this directory. */
      directory: z.string().min(1).max(4_096).optional(),
      limit: z.int().min(1).max(1_000).default(100),
    })
    .refine(namesOneAgent, ONE_AGENT_ERROR),
  response: z.object({
    sessions: z.array(
      z.object({
        /** The agent's own id of the session, for `resume`. */
        sessionId: z.string(),
        cwd: z.string(),
        title: z.string().nullable(),
        updatedAt: z.string().nullable(),
      }),
    ),
  }),
});

export const acpLoginRoute = defineRoute({
  ...endpoints.acpLogin,
  summary: "Start an agent, log in with one of its methods, and end it",
  errors: TURN_ERRORS,
  audience: "operator",
  body: z
    .strictObject({
      ...startedAgent,
      /** The id of a login method. Default: the only one. */
      method: z.string().min(1).max(200).optional(),
    })
    .refine(namesOneAgent, ONE_AGENT_ERROR),
  response: z.object({
    method: z.object({ id: z.string(), name: z.string() }),
    /** A command that the caller has to run in a terminal; exit status 0 means success. Null: the login is done. */
    terminal: z.object({ argv: z.array(z.string()), env: z.record(z.string(), z.string()) }).nullable(),
  }),
});
