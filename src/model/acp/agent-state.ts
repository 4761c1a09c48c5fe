import { z } from "zod";
import type { RecordOf } from "../record-type.js";

const described = { name: z.string(), description: z.string().nullable() };

/** Modes or models, of which the agent uses one. */
const choicesSchema = z.object({
  current: z.string(),
  available: z.array(z.object({ id: z.string(), ...described })),
});

/** A config option of the agent's session. */
const configOptionSchema = z.object({
  id: z.string(),
  ...described,
  /** The protocol's category: `mode`, `model`, `model_config`, `thought_level` or another word; null: none. */
  category: z.string().nullable(),
  type: z.enum(["select", "boolean"]),
  /** The value in use; `true` or `false` for a boolean option. */
  current: z.string(),
  /** Empty for a boolean option. */
  values: z.array(z.object({ value: z.string(), ...described })),
});

/** The last report of an agent about its session. Text of the agent, not sanitized. */
export const agentStateSchema = z.object({
  /** Null: the agent reports its modes as a config option, or has none. */
  modes: choicesSchema.nullable(),
  /** Models of agents that are older than config options; null: the agent reports them as a config option, or none. */
  models: choicesSchema.nullable(),
  options: z.array(configOptionSchema),
  /** Slash commands, which are sent at the start of a prompt. */
  commands: z.array(z.object({ name: z.string(), description: z.string(), hint: z.string().nullable() })),
  /** Tokens in the agent's context, and its cost so far. */
  usage: z
    .object({
      used: z.number(),
      size: z.number(),
      cost: z.object({ amount: z.number(), currency: z.string() }).nullable(),
    })
    .nullable(),
  title: z.string().nullable(),
});

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
export type AgentState = RecordOf<typeof agentStateSchema>;
export type AgentChoices = NonNullable<AgentState["modes"]>;
export type AgentConfigOption = AgentState["options"][number];
export type AgentSettings = RecordOf<typeof agentSettingsSchema>;
