import { defaults } from "../../defaults.js";
import type { PermissionOption } from "../../model/acp/permission-request.js";
import { type LabelledText, labelTexts } from "../../sessions/approval-question.js";
import { firstChars } from "../../text/truncate.js";
import { digestInput } from "../turn/tool-input-digest.js";
import { boundedString } from "../turn/turn-summary.js";
import { isObject } from "../wire/message.js";

/** A tool call as far as it is known: from the permission request, and from the updates before it. */
export interface ToolCallInfo {
  readonly kind: string | null;
  readonly title: string | null;
  /** The digest of what it executes; null: its input does not name it. */
  readonly inputDigest: string | null;
}

/** A permission request of an agent. The title is not shortened, because rules match on it. */
export interface ParsedPermissionRequest extends ToolCallInfo {
  readonly toolCallId: string;
  readonly options: readonly PermissionOption[];
  /** Details of the tool call besides its title, as given by the agent: input, content and locations. */
  readonly details: readonly LabelledText[];
}

/** Null: not a permission request. Title, kind and input may be missing: an earlier update may have them. */
export function parsePermissionRequest(params: unknown): ParsedPermissionRequest | null {
  if (!isObject(params)) return null;
  const { sessionId, toolCall, options } = params;
  if (typeof sessionId !== "string" || !isObject(toolCall) || !Array.isArray(options)) return null;
  const { toolCallId, title, kind, rawInput, content, locations } = toolCall;
  if (typeof toolCallId !== "string") return null;
  return {
    toolCallId: firstChars(toolCallId, defaults.titleChars),
    title: typeof title === "string" ? title : null,
    kind: boundedString(kind),
    inputDigest: digestInput(rawInput),
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

/** The details of a question, or a note if with those in memory (`held`) they would take too much of it. */
export function boundDetails(details: readonly LabelledText[], held: number): readonly LabelledText[] {
  const chars = details.reduce((sum, [label, text]) => sum + label.length + text.length, 0);
  if (held + chars <= defaults.acpDetailChars) return details;
  return [
    [
      "note",
      `${chars} characters of details were dropped, because too many details are waiting in memory. Deny this question, or answer others first`,
    ],
  ];
}

/** An option without a storable id cannot be chosen, so it is dropped. An unknown kind is kept to be shown; it is never chosen. */
function parseOption(option: unknown): PermissionOption[] {
  if (!isObject(option) || typeof option["optionId"] !== "string") return [];
  const { optionId, name, kind } = option;
  if (optionId.length > defaults.titleChars) return [];
  return [{ optionId, name: boundedString(name) ?? "", kind: boundedString(kind) ?? "" }];
}
