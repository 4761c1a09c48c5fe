import { parsePlan } from "../../../acp/turn/turn-summary.js";
import { isObject } from "../../../acp/wire/message.js";
import { truncateToWidth } from "../../../text/display-width.js";
import type { Palette } from "../../print/colours-and-progress.js";
import { toOneLine } from "./notice-texts.js";

/** Lines shown of one changed file, and files of one tool call: enough to see what is changed. */
const DIFF_LINES = 12;
const DIFF_FILES = 5;

/** The changed files in the content of a tool call: for each its path and the lines that differ. */
export function diffLines(content: unknown, width: number, palette: Palette): string[] {
  if (!Array.isArray(content)) return [];
  return content
    .filter(isObject)
    .filter(
      ({ type, path, newText }) => type === "diff" && typeof path === "string" && typeof newText === "string",
    )
    .slice(0, DIFF_FILES)
    .flatMap(({ path, oldText, newText }) => {
      const { removed, added } = changedLines(typeof oldText === "string" ? oldText : "", newText as string);
      const head = `  ${toOneLine(path as string)} +${added.length} -${removed.length}`;
      const lines = [
        ...removed.map((line) => palette.red(diffLine("-", line, width))),
        ...added.map((line) => palette.green(diffLine("+", line, width))),
      ];
      const hidden = lines.length - DIFF_LINES;
      return [
        palette.bold(truncateToWidth(head, width)),
        ...lines.slice(0, DIFF_LINES),
        ...(hidden > 0 ? [palette.dim(`  … ${hidden} more lines`)] : []),
      ];
    });
}

function diffLine(sign: string, line: string, width: number): string {
  const indent = /^\s*/.exec(line)?.[0].replaceAll("\t", "  ").length ?? 0;
  return truncateToWidth(`  ${sign} ${" ".repeat(indent)}${toOneLine(line)}`.trimEnd(), width);
}

/** The lines between the common beginning and the common end of both texts. */
export function changedLines(
  before: string,
  after: string,
): { readonly removed: readonly string[]; readonly added: readonly string[] } {
  const old = linesOf(before);
  const now = linesOf(after);
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start++;
  let end = 0;
  const most = Math.min(old.length, now.length) - start;
  while (end < most && old.at(-1 - end) === now.at(-1 - end)) end++;
  return { removed: old.slice(start, old.length - end), added: now.slice(start, now.length - end) };
}

function linesOf(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}

/** The progress of a plan; null: it has no steps. */
export function planLine(entries: unknown, width: number): string | null {
  const steps = parsePlan(entries);
  if (steps.length === 0) return null;
  const done = steps.filter(({ status }) => status === "completed").length;
  const current = steps.find(({ status }) => status === "in_progress");
  const now = current === undefined ? "" : `, now: ${toOneLine(current.content)}`;
  return truncateToWidth(`plan: ${done} of ${steps.length} done${now}`, width);
}
