import { sanitizeLine } from "../../../text/sanitize.js";
import type { Palette } from "../../print/palette.js";
import { truncateToWidth, displayWidth } from "../../print/table.js";

export interface ToolState {
  readonly title: string;
  readonly kind: string;
  readonly status: string;
}

/** A map: the status is the agent's word, and may be `constructor`. */
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

/** One line, however many its title has. */
export function toolLine({ title, kind, status }: ToolState, width: number, palette: Palette): string {
  const [mark, colour] = STATUS_MARKS.get(status) ?? ["·", "dim"];
  const words = toOneLine(`${kind === "other" ? "" : `${kind}: `}${title}`);
  const state = toOneLine(status.replaceAll("_", " "));
  const room = width - displayWidth(state) - 4;
  // Where there is no room for both, the mark says it.
  if (room < MIN_TITLE_COLUMNS) return `${palette[colour](mark)} ${truncateToWidth(words, width - 2)}`;
  return `${palette[colour](mark)} ${truncateToWidth(words, room)}  ${palette.dim(state)}`;
}

/** An agent's words on one line of ours. */
export function toOneLine(text: string): string {
  return sanitizeLine(text.replaceAll(/\s+/g, " ").trim());
}
