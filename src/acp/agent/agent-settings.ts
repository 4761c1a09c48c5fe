import { BadInput } from "../../errors.js";
import type { AgentChoices, AgentConfigOption, AgentReport } from "../../model/acp/agent-reported-state.js";
import type { AgentSettings, StoredSettings } from "../../model/acp/agent-settings.js";
import { sanitizeLine } from "../../text/sanitize.js";

/** One setting: a model, a mode, or a config option by its id. */
export interface AgentSetting {
  readonly kind: "model" | "mode" | "option";
  /** Id of the config option; empty for a model or a mode. */
  readonly id: string;
  readonly value: string;
}

/** The request that applies a setting, without the session's id. */
type SettingRequest =
  | { readonly method: "session/set_mode"; readonly params: { readonly modeId: string } }
  | { readonly method: "session/set_model"; readonly params: { readonly modelId: string } }
  | {
      readonly method: "session/set_config_option";
      readonly params:
        | { readonly configId: string; readonly value: string }
        | { readonly configId: string; readonly type: "boolean"; readonly value: boolean };
    };

/** In the order in which they are applied: another model may change the modes and options that the agent offers. */
export function listSettings({ model, mode, options = {} }: AgentSettings): readonly AgentSetting[] {
  return [
    ...(model === undefined ? [] : [{ kind: "model" as const, id: "", value: model }]),
    ...(mode === undefined ? [] : [{ kind: "mode" as const, id: "", value: mode }]),
    ...Object.entries(options).map(([id, value]) => ({ kind: "option" as const, id, value })),
  ];
}

/** One setting in the form of several. */
export function toSettings({ kind, id, value }: AgentSetting): AgentSettings {
  return kind === "option" ? { options: { [id]: value } } : { [kind]: value };
}

/** The later settings replace the earlier ones, option by option. */
export function mergeSettings(earlier: StoredSettings | null, later: AgentSettings): StoredSettings {
  const options = { ...earlier?.options, ...later.options };
  return { ...earlier, ...later, ...(Object.keys(options).length === 0 ? {} : { options }) };
}

/**
 * The request for a setting; null: the agent already has it. Throws BadInput if the agent does not offer it. A config
 * option of the category `model` or `mode` takes precedence over the older lists of models and modes, as the protocol
 * demands.
 */
export function requestForSetting(state: AgentReport, setting: AgentSetting): SettingRequest | null {
  const { kind, id, value } = setting;
  if (kind === "option") {
    const option = state.options.find((each) => each.id === id);
    if (option !== undefined) return optionRequest(option, value, `--option ${id}`);
    const known = state.options.map((each) => each.id);
    throw new BadInput("options", notOffered(`config option ${JSON.stringify(id)}`, known));
  }
  const option = state.options.find(({ category, type }) => category === kind && type === "select");
  if (option !== undefined) return optionRequest(option, value, `--${kind}`);
  const choices = kind === "model" ? state.models : state.modes;
  if (choices === null) throw new BadInput(kind, `the agent offers no choice of ${kind}s; nothing was set`);
  const chosen = chooseId(choices, kind, value);
  if (chosen === choices.current) return null;
  return kind === "model"
    ? { method: "session/set_model", params: { modelId: chosen } }
    : { method: "session/set_mode", params: { modeId: chosen } };
}

/** The state after an agent has accepted a request whose answer does not report the new state; null: unchanged. */
export function stateAfterSetting(
  state: AgentReport,
  { method, params }: SettingRequest,
): AgentReport | null {
  if (method === "session/set_mode" && state.modes !== null)
    return { ...state, modes: { ...state.modes, current: params.modeId } };
  if (method === "session/set_model" && state.models !== null)
    return { ...state, models: { ...state.models, current: params.modelId } };
  return null;
}

function chooseId({ available }: AgentChoices, kind: "model" | "mode", value: string): string {
  const chosen = choose(available, ({ id }) => id, value);
  if (chosen !== undefined) return chosen.id;
  const known = available.map(({ id }) => id);
  throw new BadInput(kind, notOffered(`${kind} ${JSON.stringify(value)}`, known));
}

function optionRequest(option: AgentConfigOption, wanted: string, flag: string): SettingRequest | null {
  const { id: configId, type, current, values } = option;
  const method = "session/set_config_option";
  if (type === "boolean") {
    const value = BOOLEAN_WORDS.get(wanted.toLowerCase());
    if (value === undefined)
      throw new BadInput(
        "options",
        `${flag} is true or false, not ${JSON.stringify(wanted)}; it was not set`,
      );
    return String(value) === current ? null : { method, params: { configId, type, value } };
  }
  const chosen = choose(values, ({ value }) => value, wanted);
  if (chosen === undefined)
    throw new BadInput(
      "options",
      notOffered(
        `${flag} ${JSON.stringify(wanted)}`,
        values.map(({ value }) => value),
      ),
    );
  const { value } = chosen;
  return value === current ? null : { method, params: { configId, value } };
}

const BOOLEAN_WORDS = new Map([
  ["true", true],
  ["on", true],
  ["yes", true],
  ["false", false],
  ["off", false],
  ["no", false],
]);

/** Finds a value by its id, or else by its name if no other value has that name. The case of a name does not matter. */
function choose<T extends { readonly name: string }>(
  available: readonly T[],
  idOf: (each: T) => string,
  wanted: string,
): T | undefined {
  const byId = available.find((each) => idOf(each) === wanted);
  if (byId !== undefined) return byId;
  const named = available.filter(({ name }) => name.toLowerCase() === wanted.toLowerCase());
  return named.length === 1 ? named[0] : undefined;
}

/** Values that an error names; `acp show --json` has all. */
const NAMED_VALUES = 20;

function notOffered(what: string, known: readonly string[]): string {
  const named = known.slice(0, NAMED_VALUES).join(", ");
  const more = known.length > NAMED_VALUES ? ` and ${known.length - NAMED_VALUES} more` : "";
  const offered = known.length === 0 ? "it offers none" : `it offers ${named}${more}`;
  return sanitizeLine(`the agent does not offer ${what}: ${offered}. It was not set`);
}
