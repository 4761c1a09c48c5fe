import type { ResponseOf } from "../../api/contract.js";
import { BadInput } from "../../errors.js";
import type { AgentReport } from "../../model/acp/agent-reported-state.js";
import type { AgentSettings } from "../../model/acp/agent-settings.js";
import { connectOrStart } from "../client/connect.js";
import { resolveAcpSession } from "../client/resolve-acp-session.js";
import type { JsonFlag } from "../options/command-definition.js";
import { print, toJson } from "../print/write-output.js";
import { type DisplayField, fieldLines } from "../print/fields.js";

export interface SettingFlags {
  readonly model?: string;
  readonly option?: Readonly<Record<string, string>>;
}

/** Null: no setting was given. */
export function settingsOf({ model, option }: SettingFlags, mode: string | undefined): AgentSettings | null {
  const settings = {
    ...(model === undefined ? {} : { model }),
    ...(mode === undefined ? {} : { mode }),
    ...(option === undefined ? {} : { options: option }),
  };
  return Object.keys(settings).length === 0 ? null : settings;
}

/** Changes the model, mode or config options of the agent of a session. */
export async function setAgentSettings(
  wanted: string,
  flags: SettingFlags & JsonFlag & { readonly mode?: string },
): Promise<number> {
  const settings = settingsOf(flags, flags.mode);
  if (settings === null) throw new BadInput("model", "give --model, --mode or --option; nothing was set");
  const { client } = await connectOrStart();
  const { sessionId } = await resolveAcpSession(client, wanted);
  const { options, ...rest } = settings;
  const body = { ...rest, ...(options === undefined ? {} : { options: { ...options } }) };
  const answer = await client.acpSet({ params: { id: sessionId }, body });
  print(
    flags.json === true ? toJson(answer, 2) : `${fieldLines(settingFields(answer.agentState)).join("\n")}\n`,
  );
  return 0;
}

/** Alternatives that one line lists; `acp show --json` has all. */
const NAMED_VALUES = 12;

/** The model, mode and config options of an agent, with the values that it offers. */
export function settingFields(state: AgentReport | null): DisplayField[] {
  if (state === null) return [];
  const { models, modes, options } = state;
  const hasOption = (wanted: string): boolean => options.some(({ category }) => category === wanted);
  return [
    ...(models === null || hasOption("model")
      ? []
      : [
          choiceField(
            "model",
            models.current,
            models.available.map(({ id }) => id),
          ),
        ]),
    ...(modes === null || hasOption("mode")
      ? []
      : [
          choiceField(
            "agent mode",
            modes.current,
            modes.available.map(({ id }) => id),
          ),
        ]),
    ...options.map(({ id, category, type, current, values }) =>
      choiceField(
        OPTION_NAMES.get(category ?? "") ?? `option ${id}`,
        current,
        type === "boolean" ? ["true", "false"] : values.map(({ value }) => value),
      ),
    ),
  ];
}

const OPTION_NAMES = new Map([
  ["model", "model"],
  ["mode", "agent mode"],
]);

function choiceField(name: string, current: string, available: readonly string[]): DisplayField {
  const others = available.filter((each) => each !== current);
  if (others.length === 0) return [name, current];
  const more = others.length > NAMED_VALUES ? `, and ${others.length - NAMED_VALUES} more (--json)` : "";
  return [name, `${current} (or ${others.slice(0, NAMED_VALUES).join(", ")}${more})`];
}

/** The title, context and slash commands that the agent reports. */
export function agentFields(state: ResponseOf<"acpShow">["agentState"]): DisplayField[] {
  if (state === null) return [];
  const { title, usage, commands } = state;
  return [
    ["title", title],
    ["context", usage === null ? null : usageText(usage)],
    ...commands.map(({ name, description, hint }): DisplayField => [
      "command",
      `/${name}${hint === null ? "" : ` <${hint}>`}  ${description}`.trimEnd(),
    ]),
  ];
}

/** Tokens in the agent's context, and the cost. */
export function usageText({ used, size, cost }: NonNullable<AgentReport["usage"]>): string {
  const share = size > 0 ? ` (${Math.round((100 * used) / size)} %)` : "";
  const price = cost === null ? "" : `, ${cost.amount.toFixed(2)} ${cost.currency}`;
  return `${used} of ${size} tokens${share}${price}`;
}
