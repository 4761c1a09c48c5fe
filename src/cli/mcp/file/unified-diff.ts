import { type Edit, inOrder } from "./config-document.js";

/** Unchanged lines around a change, as in diff(1) and git. */
const CONTEXT = 3;

/** Lines `from` up to `to` of the old text, counted from 0, and what replaces them. */
interface Change {
  from: number;
  to: number;
  lines: string[];
}

/** The edits of a text as a unified diff. Empty: there are none. */
export function unifiedDiff(name: string, text: string, edits: readonly Edit[]): string {
  const old = splitLines(text);
  const changes = toChanges(text, old, edits);
  if (changes.length === 0) return "";
  const result = [`--- ${name}`, `+++ ${name}`];
  let shift = 0;
  for (const group of groupChanges(changes)) {
    const from = Math.max(0, (group[0]?.from ?? 0) - CONTEXT);
    const to = Math.min(old.length, (group.at(-1)?.to ?? 0) + CONTEXT);
    const body: string[] = [];
    let at = from;
    for (const change of group) {
      body.push(...old.slice(at, change.from).map((line) => ` ${line}`));
      body.push(...old.slice(change.from, change.to).map((line) => `-${line}`));
      body.push(...change.lines.map((line) => `+${line}`));
      at = change.to;
    }
    body.push(...old.slice(at, to).map((line) => ` ${line}`));
    const added = group.reduce((sum, change) => sum + change.lines.length - (change.to - change.from), 0);
    result.push(
      `@@ ${rangeText(from, to - from)} ${rangeText(from + shift, to - from + added, "+")} @@`,
      ...body.map(printedLine),
    );
    shift += added;
  }
  return `${result.join("\n")}\n`;
}

function rangeText(from: number, count: number, sign = "-"): string {
  return `${sign}${count === 0 ? from : from + 1}${count === 1 ? "" : `,${count}`}`;
}

/** Lines with their ends. */
function splitLines(text: string): string[] {
  return text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
}

/** A line without its end, because the printer of tables adds one. */
function printedLine(line: string): string {
  return line.endsWith("\n") ? line.replace(/\r?\n$/, "") : `${line}\n\\ No newline at end of file`;
}

/** Whole lines that the edits change; edits of the same or adjacent lines are one change. */
function toChanges(text: string, old: readonly string[], edits: readonly Edit[]): Change[] {
  const starts = [0];
  for (const line of old) starts.push((starts.at(-1) ?? 0) + line.length);
  const lineOf = (offset: number): number => {
    let line = 0;
    while (line + 1 < old.length && (starts[line + 1] ?? Infinity) <= offset) line++;
    return line;
  };
  const spans: { from: number; to: number; edits: Edit[] }[] = [];
  for (const edit of inOrder(edits)) {
    const from = lineOf(edit.start);
    const to = old.length === 0 ? 0 : lineOf(Math.max(edit.start, edit.end - 1)) + 1;
    const last = spans.at(-1);
    if (last !== undefined && from < last.to) {
      last.to = Math.max(last.to, to);
      last.edits.push(edit);
    } else spans.push({ from, to, edits: [edit] });
  }
  return spans.map((span) => {
    const begin = starts[span.from] ?? 0;
    let next = begin;
    let lines = "";
    for (const edit of span.edits) {
      lines += text.slice(next, edit.start) + edit.text;
      next = edit.end;
    }
    lines += text.slice(next, starts[span.to] ?? text.length);
    return trimChange({ from: span.from, to: span.to, lines: splitLines(lines) }, old);
  });
}

/** Removes from a change the lines at both ends that stay the same. */
function trimChange(change: Change, old: readonly string[]): Change {
  const { lines } = change;
  while (lines.length > 0 && change.from < change.to && lines[0] === old[change.from]) {
    lines.shift();
    change.from++;
  }
  while (lines.length > 0 && change.from < change.to && lines.at(-1) === old[change.to - 1]) {
    lines.pop();
    change.to--;
  }
  return change;
}

/** Changes whose contexts touch are shown together. */
function groupChanges(changes: readonly Change[]): Change[][] {
  const groups: Change[][] = [];
  for (const change of changes) {
    const last = groups.at(-1);
    const before = last?.at(-1)?.to;
    if (last !== undefined && before !== undefined && change.from - before <= 2 * CONTEXT) last.push(change);
    else groups.push([change]);
  }
  return groups;
}
