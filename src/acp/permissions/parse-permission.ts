import type { PermissionOption } from "@agentclientprotocol/sdk";
import { defaults } from "../../defaults.js";
import { type LabelledText, labelTexts } from "../../sessions/approval-question.js";
import { firstChars } from "../../text/truncate.js";
import { boundedString } from "../turn/turn-summary.js";
import { isObject } from "../wire/message.js";
import type { ToolCallInfo } from "./permission-policy.js";

/** What an agent asks permission for. Its title is whole: rules look at it. */
export interface ParsedPermissionRequest extends ToolCallInfo {
  readonly sessionId: string;
  readonly toolCallId: string;
  readonly options: readonly PermissionOption[];
  /** Details of the tool call besides its title, as given by the agent: input, content and locations. */
  readonly details: readonly LabelledText[];
}

/** Null: not a request for permission. Title and kind may be null: they were said before, or never. */
export function parsePermissionRequest(params: unknown): ParsedPermissionRequest | null {
  if (!isObject(params)) return null;
  const { sessionId, toolCall, options } = params;
  if (typeof sessionId !== "string" || !isObject(toolCall) || !Array.isArray(options)) return null;
  const { toolCallId, title, kind, rawInput, content, locations } = toolCall;
  if (typeof toolCallId !== "string") return null;
  return {
    sessionId,
    toolCallId: firstChars(toolCallId, defaults.titleChars),
    title: typeof title === "string" ? title : null,
    kind: boundedString(kind),
    details: [
      ...(isEmpty(rawInput) ? [] : labelTexts("input", rawInput)),
      ...(isEmpty(content) ? [] : labelTexts("content", content)),
      ...(isEmpty(locations) ? [] : labelTexts("locations", locations)),
    ],
    options: options.slice(0, defaults.acpAskedOptions).flatMap(parseOption),
  };
}

function isEmpty(value: unknown): boolean {
  return (
    value === undefined || value === null || (typeof value === "object" && Object.keys(value).length === 0)
  );
}

/** What has no id that can be kept cannot be chosen. A kind that is not known is kept: it is never chosen either, but may be shown. */
function parseOption(option: unknown): PermissionOption[] {
  if (!isObject(option) || typeof option["optionId"] !== "string") return [];
  const { optionId, name, kind } = option;
  if (optionId.length > defaults.titleChars) return [];
  return [
    {
      optionId,
      name: boundedString(name) ?? "",
      kind: (boundedString(kind) ?? "") as PermissionOption["kind"],
    },
  ];
}
