import type { ResponseOf } from "../../../api/contract.js";
import { sanitizeLine } from "../../../text/sanitize.js";
import { formatDuration } from "../../options/units.js";
import type { Palette } from "../../print/palette.js";
import { displayWidth, truncateToWidth } from "../../../text/width.js";

export interface ToolState {
  readonly title: string;
  readonly kind: string;
  readonly status: string;
}

/** A Map: the status comes from the agent and may be `constructor`. */
const STATUS_MARKS = new Map<string, readonly [mark: string, colour: "green" | "red" | "yellow" | "dim"]>([
  ["pending", ["·", "dim"]],
  ["in_progress", ["…", "yellow"]],
  ["completed", ["✓", "green"]],
  ["failed", ["✗", "red"]],
]);

export function toolHasEnded({ status }: ToolState): boolean {
  return status === "completed" || status === "failed";
}

const MIN_TITLE_COLUMNS = 8;

/** A tool call on one line, even if its title has several. */
export function toolLine({ title, kind, status }: ToolState, width: number, palette: Palette): string {
  const [mark, colour] = STATUS_MARKS.get(status) ?? ["·", "dim"];
  const words = toOneLine(`${kind === "other" ? "" : `${kind}: `}${title}`);
  const state = toOneLine(status.replaceAll("_", " "));
  const room = width - displayWidth(state) - 4;
  // If there is no room for both, the mark is enough.
  if (room < MIN_TITLE_COLUMNS) return `${palette[colour](mark)} ${truncateToWidth(words, width - 2)}`;
  return `${palette[colour](mark)} ${truncateToWidth(words, room)}  ${palette.dim(state)}`;
}

/** Text of an agent as a single line. */
export function toOneLine(text: string): string {
  return sanitizeLine(text.replaceAll(/\s+/g, " ").trim());
}

export type PermissionRequest = ResponseOf<"acpAnswer">["permission"];

/** The subject of a permission request. */
export function permissionSubject({ kind, title, toolCallId }: PermissionRequest): string {
  const words = title ?? toolCallId;
  return toOneLine(kind === null ? words : `${kind}: ${words}`);
}

export function expiryText({ expiresAt }: PermissionRequest, now: number): string {
  return `expires in ${formatDuration(Math.max(0, expiresAt - now))}`;
}

/** Null: a request that a rule answered is not shown. */
export function permissionLine(permission: PermissionRequest, now: number): string | null {
  const { id, decision } = permission;
  const subject = permissionSubject(permission);
  if (decision === null)
    return `? ${subject} (${expiryText(permission, now)}): holdfast acp permissions show ${id}, then allow or deny`;
  const { verdict, actor } = decision;
  if (verdict === "allow" && actor.startsWith("rule ")) return null;
  return `${VERDICT_WORDS[verdict]}: ${subject} (${toOneLine(actor)})`;
}

const VERDICT_WORDS = {
  allow: "allowed",
  deny: "denied",
  cancelled: "not answered",
  expired: "expired",
} as const;

/** Formats of updates: text for reading, the frames as JSON, or only the answer. */
export const OUTPUT_FORMATS = ["text", "json", "quiet"] as const;
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];
