import { z } from "zod";
import { agentSettingsSchema, agentStateSchema } from "../../model/agent-state.js";
import { endpoints } from "../endpoints.js";
import { defineRoute } from "../route.js";
import { TURN_ERRORS } from "./acp.js";
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
  response: z.object({ session: acpSessionSchema, agentState: agentStateSchema.nullable() }),
});
