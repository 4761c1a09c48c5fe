import { z } from "zod";
import type { RecordOf } from "../record-type.js";

const settingValue = z.string().min(1).max(1_000);

/** Settings of an agent's session. A value is an id that the agent offers, or its name. */
export const agentSettingsSchema = z.strictObject({
  model: settingValue.optional(),
  mode: settingValue.optional(),
  /** By the id of the config option. A boolean option is `true` or `false`. */
  options: z
    .record(settingValue, settingValue)
    .refine((options) => Object.keys(options).length <= 100, "at most 100 options")
    .optional(),
});

/** A session that the agent has stored, to be continued. */
export const agentResumeSchema = z.strictObject({
  /** The agent's own id of the session. */
  sessionId: z.string().min(1).max(1_000),
  /** Continue a copy, and leave the session as it is. */
  fork: z.boolean().default(false),
});

/** The stored part of a session's request, which is applied whenever its agent is started. */
export const storedSettingsSchema = agentSettingsSchema.extend({
  /** Directories of the agent's session beside its working directory. */
  directories: z.array(z.string()).optional(),
  /** The stored session of the agent that this session continues. */
  resume: agentResumeSchema.optional(),
});

export type AgentResume = RecordOf<typeof agentResumeSchema>;
export type StoredSettings = RecordOf<typeof storedSettingsSchema>;

export type AgentSettings = RecordOf<typeof agentSettingsSchema>;
