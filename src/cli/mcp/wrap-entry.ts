import { type ConfigDocument, type ConfigTable, type Edit, lineEnding } from "./file/config-document.js";
import type { ServerCommand } from "./server-entries.js";
import type { WrappedCommand } from "./wrapped-command.js";

/**
 * The edits that put words in front of a server's own. The server's words keep their spelling, and nothing else is
 * changed, so that `unwrapEdits` restores every byte.
 */
export function wrapEdits(
  { text, format }: ConfigDocument,
  { table, words, inOneList }: ServerCommand,
  prefix: (hasArgs: boolean) => readonly string[],
): Edit[] {
  const [own, ...rest] = words;
  if (own === undefined) return [];
  const insert = (at: number, added: string): Edit => ({ start: at, end: at, text: added });
  const quoted = (list: readonly string[]): string => list.map((word) => JSON.stringify(word)).join(", ");
  if (inOneList) return [insert(own.start, `${quoted(prefix(true))}${separatorBefore(text, own.start)}`)];
  const args = table.members.get("args");
  const [program = "", ...options] = prefix(args !== undefined);
  const ownSource = text.slice(own.start, own.end);
  const replaced = { start: own.start, end: own.end, text: JSON.stringify(program) };
  if (args !== undefined) {
    const [first] = rest;
    // An empty list: right after its bracket, so that an undo finds the end.
    const at = first?.start ?? args.value.start + 1;
    const after = first === undefined ? "" : separatorBefore(text, at);
    return [replaced, insert(at, `${quoted(options)}, ${ownSource}${after}`)];
  }
  const list = `[${quoted(options)}, ${ownSource}]`;
  const member = table.members.get("command");
  if (member === undefined) return [];
  if (format === "json" || table.inline) {
    const key = format === "json" ? '"args":' : "args =";
    return [{ ...replaced, text: `${replaced.text}${separatorBefore(text, member.start)}${key} ${list}` }];
  }
  // On a line of its own before the command, so that a comment after the command stays there.
  const indent = /[ \t]*$/.exec(text.slice(0, member.start))?.[0] ?? "";
  const dotted = text.slice(member.start, member.keyStart);
  return [insert(member.start, `${dotted}args = ${list}${lineEnding(text)}${indent}`), replaced];
}

/** A comma and what separates the items of this list: a new line with its indentation, or a space. */
function separatorBefore(text: string, firstItem: number): string {
  const space = /\r?\n[ \t]*$/.exec(text.slice(0, firstItem))?.[0] ?? " ";
  return `,${space}`;
}

/** The edits that restore what `wrapEdits` has changed, also if the user has moved it since. */
export function unwrapEdits(
  document: ConfigDocument,
  { table, words, inOneList }: ServerCommand,
  { prefix, separated }: WrappedCommand,
): Edit[] {
  const { text } = document;
  const own = words[prefix];
  const [program, firstOption] = words;
  if (own === undefined || program === undefined || firstOption === undefined) return [];
  if (inOneList) return [{ start: program.start, end: own.start, text: "" }];
  const restored = { start: program.start, end: program.end, text: text.slice(own.start, own.end) };
  const next = words[prefix + 1];
  if (separated || next !== undefined)
    return [restored, { start: firstOption.start, end: next?.start ?? own.end, text: "" }];
  return [restored, removeArgs(document, table)];
}

/** Removes the list that wrap has added. */
function removeArgs({ text, format }: ConfigDocument, table: ConfigTable): Edit {
  const args = table.members.get("args");
  const command = table.members.get("command");
  if (args === undefined || command === undefined) return { start: 0, end: 0, text: "" };
  const between = (start: number, end: number): string => (start <= end ? text.slice(start, end) : "x");
  if (format === "toml" && !table.inline) {
    // Removed with the line ending, and the indentation of the next line.
    const isBefore = /^\r?\n[ \t]*$/.test(between(args.end, command.start));
    const line = /^[ \t]*(?:#[^\n]*)?(?:\n|$)/.exec(text.slice(args.end))?.[0] ?? "";
    return { start: args.start, end: isBefore ? command.start : args.end + line.length, text: "" };
  }
  const isAfter = /^\s*,\s*$/.test(between(command.end, args.start));
  if (isAfter) return { start: command.end, end: args.end, text: "" };
  // The user has moved the list. Removed with the comma behind it, or else with the one before it.
  const comma = /^\s*,\s*/.exec(text.slice(args.end))?.[0];
  if (comma !== undefined) return { start: args.start, end: args.end + comma.length, text: "" };
  const before = /,\s*$/.exec(text.slice(0, args.start))?.[0] ?? "";
  return { start: args.start - before.length, end: args.end, text: "" };
}
