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
export const agentReportSchema = z.object({
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

export type AgentReport = RecordOf<typeof agentReportSchema>;
export type AgentChoices = NonNullable<AgentReport["modes"]>;
export type AgentConfigOption = AgentReport["options"][number];
