import type { PermissionOption } from "@agentclientprotocol/sdk";
import { defaults } from "../defaults.js";
import { labelledTexts, type LabelledText } from "../sessions/question.js";
import { firstOf } from "./cut.js";
import type { AskedTool } from "./permission.js";
import { wordOf } from "./turn.js";
import { isObject } from "./wire/message.js";

/** What an agent asks permission for. Its title is whole: rules look at it. */
export interface PermissionQuestion extends AskedTool {
  readonly sessionId: string;
  readonly toolCallId: string;
  readonly options: readonly PermissionOption[];
  /** Details of the tool call besides its title, as given by the agent: input, content and locations. */
  readonly details: readonly LabelledText[];
}

/** Null: not a request for permission. Title and kind may be null: they were said before, or never. */
export function readPermission(params: unknown): PermissionQuestion | null {
  if (!isObject(params)) return null;
  const { sessionId, toolCall, options } = params;
  if (typeof sessionId !== "string" || !isObject(toolCall) || !Array.isArray(options)) return null;
  const { toolCallId, title, kind, rawInput, content, locations } = toolCall;
  if (typeof toolCallId !== "string") return null;
  return {
    sessionId,
    toolCallId: firstOf(toolCallId, defaults.titleChars),
    title: typeof title === "string" ? title : null,
    kind: wordOf(kind),
    details: [
      ...(isEmpty(rawInput) ? [] : labelledTexts("input", rawInput)),
      ...(isEmpty(content) ? [] : labelledTexts("content", content)),
      ...(isEmpty(locations) ? [] : labelledTexts("locations", locations)),
    ],
    options: options.slice(0, defaults.acpAskedOptions).flatMap(readOption),
  };
}

function isEmpty(value: unknown): boolean {
  return (
    value === undefined || value === null || (typeof value === "object" && Object.keys(value).length === 0)
  );
}

/** What has no id that can be kept cannot be chosen. A kind that is not known is kept: it is never chosen either, but may be shown. */
function readOption(option: unknown): PermissionOption[] {
  if (!isObject(option) || typeof option["optionId"] !== "string") return [];
  const { optionId, name, kind } = option;
  if (optionId.length > defaults.titleChars) return [];
  return [{ optionId, name: wordOf(name) ?? "", kind: (wordOf(kind) ?? "") as PermissionOption["kind"] }];
}
