import { sanitizeLine } from "../../output/sanitize.js";
import type { Palette } from "../palette.js";
import { fit, widthOf } from "../runs/table.js";

export interface Tool {
  readonly title: string;
  readonly kind: string;
  readonly status: string;
}

/** A map: the status is the agent's word, and may be `constructor`. */
const MARKS = new Map<string, readonly [mark: string, colour: "green" | "red" | "yellow" | "dim"]>([
  ["pending", ["·", "dim"]],
  ["in_progress", ["…", "yellow"]],
  ["completed", ["✓", "green"]],
  ["failed", ["✗", "red"]],
]);

export function hasEnded({ status }: Tool): boolean {
  return status === "completed" || status === "failed";
}

const NARROW = 8;

/** One line, however many its title has. */
export function toolLine({ title, kind, status }: Tool, width: number, palette: Palette): string {
  const [mark, colour] = MARKS.get(status) ?? ["·", "dim"];
  const words = oneLine(`${kind === "other" ? "" : `${kind}: `}${title}`);
  const state = oneLine(status.replaceAll("_", " "));
  const room = width - widthOf(state) - 4;
  // Where there is no room for both, the mark says it.
  if (room < NARROW) return `${palette[colour](mark)} ${fit(words, width - 2)}`;
  return `${palette[colour](mark)} ${fit(words, room)}  ${palette.dim(state)}`;
}

/** An agent's words on one line of ours. */
export function oneLine(text: string): string {
  return sanitizeLine(text.replaceAll(/\s+/g, " ").trim());
}
