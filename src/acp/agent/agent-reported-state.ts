import { defaults } from "../../defaults.js";
import type { AgentChoices, AgentConfigOption, AgentReport } from "../../model/acp/agent-reported-state.js";
import { boundedString } from "../turn/turn-summary.js";
import { isObject, type RpcOutcome, type SessionUpdate } from "../wire/message.js";

export const EMPTY_AGENT_REPORT: AgentReport = {
  modes: null,
  models: null,
  options: [],
  commands: [],
  usage: null,
  title: null,
};

/** Requests whose answers report the modes, models and config options of the agent's session. */
const REPORTING_METHODS: ReadonlySet<string> = new Set([
  "session/new",
  "session/load",
  "session/resume",
  "session/fork",
  "session/set_config_option",
]);

/** The state after an answer of the agent; null: unchanged. */
export function stateAfterAnswer(
  state: AgentReport | null,
  method: string,
  outcome: RpcOutcome,
): AgentReport | null {
  if (!REPORTING_METHODS.has(method) || !("result" in outcome) || !isObject(outcome.result)) return null;
  const { modes, models, configOptions } = outcome.result;
  // A new agent session has nothing of the one before.
  const before = method === "session/new" || method === "session/fork" ? null : state;
  return {
    ...(before ?? EMPTY_AGENT_REPORT),
    ...(isObject(modes) ? { modes: parseChoices(modes, "currentModeId", "availableModes", "id") } : {}),
    ...(isObject(models)
      ? { models: parseChoices(models, "currentModelId", "availableModels", "modelId") }
      : {}),
    ...(Array.isArray(configOptions) ? { options: parseOptions(configOptions) } : {}),
  };
}

/** The state after updates of the agent, in order; null: unchanged. */
export function stateAfterUpdates(
  state: AgentReport | null,
  updates: readonly Pick<SessionUpdate, "update">[],
): AgentReport | null {
  let changed: AgentReport | null = null;
  for (const { update } of updates) {
    const patch = patchFrom(update, changed ?? state ?? EMPTY_AGENT_REPORT);
    if (patch !== null) changed = { ...(changed ?? state ?? EMPTY_AGENT_REPORT), ...patch };
  }
  return changed;
}

function patchFrom(update: SessionUpdate["update"], state: AgentReport): Partial<AgentReport> | null {
  switch (update.sessionUpdate) {
    case "current_mode_update": {
      const current = identifier(update["currentModeId"]);
      return current === null || state.modes === null ? null : { modes: { ...state.modes, current } };
    }
    case "config_option_update":
      return { options: parseOptions(update["configOptions"]) };
    case "available_commands_update":
      return { commands: parseCommands(update["availableCommands"]) };
    case "session_info_update":
      return "title" in update ? { title: boundedString(update["title"]) } : null;
    case "usage_update":
      return { usage: parseUsage(update) };
    default:
      return null;
  }
}

function parseChoices(
  reported: Readonly<Record<string, unknown>>,
  currentField: string,
  availableField: string,
  idField: string,
): AgentChoices | null {
  const current = identifier(reported[currentField]);
  if (current === null) return null;
  const available = listOf(reported[availableField]).flatMap((each) => {
    const id = identifier(each[idField]);
    return id === null ? [] : [{ id, ...describe(each, id) }];
  });
  return { current, available };
}

function parseOptions(reported: unknown): AgentConfigOption[] {
  return listOf(reported).flatMap((each): AgentConfigOption[] => {
    const id = identifier(each["id"]);
    const { type, currentValue } = each;
    const category = identifier(each["category"]);
    if (id === null) return [];
    const common = { id, ...describe(each, id), category };
    if (type === "boolean" && typeof currentValue === "boolean")
      return [{ ...common, type, current: String(currentValue), values: [] }];
    const current = identifier(currentValue);
    if (type !== "select" || current === null) return [];
    return [{ ...common, type, current, values: parseValues(each["options"]) }];
  });
}

/** Values, which may be in groups. */
function parseValues(reported: unknown): AgentConfigOption["values"] {
  return listOf(reported)
    .flatMap((each) => (Array.isArray(each["options"]) ? listOf(each["options"]) : [each]))
    .slice(0, defaults.acpChoices)
    .flatMap((each) => {
      const value = identifier(each["value"]);
      return value === null ? [] : [{ value, ...describe(each, value) }];
    });
}

function parseCommands(reported: unknown): AgentReport["commands"] {
  return listOf(reported).flatMap((each) => {
    const name = identifier(each["name"]);
    if (name === null) return [];
    const { input } = each;
    const hint = isObject(input) ? boundedString(input["hint"]) : null;
    return [{ name, description: boundedString(each["description"]) ?? "", hint }];
  });
}

/** Null: not a valid report. */
export function parseUsage({ used, size, cost }: Readonly<Record<string, unknown>>): AgentReport["usage"] {
  if (typeof used !== "number" || typeof size !== "number") return null;
  if (!isObject(cost) || typeof cost["amount"] !== "number") return { used, size, cost: null };
  return { used, size, cost: { amount: cost["amount"], currency: boundedString(cost["currency"]) ?? "" } };
}

function listOf(reported: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(reported) ? reported.slice(0, defaults.acpChoices).filter(isObject) : [];
}

function describe(reported: Readonly<Record<string, unknown>>, id: string) {
  return { name: boundedString(reported["name"]) ?? id, description: boundedString(reported["description"]) };
}

/** An id is used whole or not at all. */
function identifier(value: unknown): string | null {
  return typeof value === "string" && value.length <= defaults.titleChars ? value : null;
}
