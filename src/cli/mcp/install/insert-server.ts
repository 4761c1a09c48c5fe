import {
  badFile,
  type ConfigDocument,
  type ConfigMember,
  type ConfigTable,
  type Edit,
  findTable,
  lineEnding,
} from "../file/config-document.js";

/** The entry of a server: its keys, in order. */
export type EntryValues = Readonly<Record<string, string | boolean | readonly string[]>>;

interface NestedTable {
  readonly [key: string]: EntryValues | NestedTable;
}
type Table = EntryValues | NestedTable;
type Value = Table | EntryValues[string];

const insert = (at: number, text: string): Edit => ({ start: at, end: at, text });
const remove = (start: number, end: number): Edit => ({ start, end, text: "" });

/**
 * The edits that add a server at a path of keys, with the tables that are missing. Nothing else is changed. The form of the
 * added text shows `removeEdits` how the file was before. `path` of the file is for messages.
 */
export function insertEdits(
  document: ConfigDocument,
  keys: readonly string[],
  entry: EntryValues,
  path: string,
): Edit[] {
  if (document.format === "toml")
    return [insert(document.text.length, tomlTable(document.text, keys, entry))];
  let table = document.root;
  let depth = 0;
  for (; depth < keys.length - 1; depth++) {
    const key = keys[depth] ?? "";
    const inner = findTable(table, [key]);
    if (inner === undefined && table.members.has(key)) throw badFile(path, null, `${key} is not an object`);
    if (inner === undefined) break;
    table = inner;
  }
  let value: Table = entry;
  for (const key of keys.slice(depth + 1).toReversed()) value = { [key]: value };
  return insertMember(document.text, table, keys[depth] ?? "", value);
}

/** The text of a new file that has only this server. */
export function newFileText(
  format: ConfigDocument["format"],
  keys: readonly string[],
  entry: EntryValues,
): string {
  if (format === "toml") return tomlTable("", keys, entry);
  let value: Table = entry;
  for (const key of keys.toReversed()) value = { [key]: value };
  return `${multiLine(value, { outer: "", unit: "  ", end: "\n" })}\n`;
}

/** The edits that remove the server, and the tables that were added for it. */
export function removeEdits({ text, format, root }: ConfigDocument, keys: readonly string[]): Edit[] {
  const [key = "", ...above] = keys.toReversed();
  const table = findTable(root, above.toReversed());
  const member = table?.members.get(key);
  if (table === undefined || member === undefined) return [];
  return format === "toml" ? removeTomlTable(text, member) : removeMember(text, root, keys);
}

function tomlTable(text: string, keys: readonly string[], entry: EntryValues): string {
  const end = lineEnding(text);
  // `removeEdits` takes a blank line as the line ending that was there before.
  const lines = [
    `[${keys.join(".")}]`,
    ...Object.entries(entry).map(([key, value]) => `${key} = ${inLine(value)}`),
  ];
  return `${text === "" ? "" : end}${lines.join(end)}${end}`;
}

/** The table and its own tables, with their lines. */
function removeTomlTable(text: string, { value }: ConfigMember): Edit[] {
  if (value.kind !== "table" || value.inline) return [];
  const own = [...value.members.values()].flatMap((member) =>
    member.value.kind === "table" && member.start >= value.end ? removeTomlTable(text, member) : [],
  );
  const before = text.slice(0, value.start);
  const line = /^[ \t]*(?:#[^\n]*)?(?:\n|\r\n|$)/.exec(text.slice(value.end))?.[0] ?? "";
  const end = value.end + line.length;
  const blank = /(?<=^|\n)\r?\n$/.exec(before)?.[0] ?? "";
  const joined = blank === "" && end === text.length ? (/\r?\n$/.exec(before)?.[0] ?? "") : "";
  return [remove(value.start - (blank === "" ? joined : blank).length, end), ...own];
}

function insertMember(text: string, table: ConfigTable, key: string, value: Table): Edit[] {
  const [last] = [...table.members.values()].toSorted((a, b) => b.end - a.end);
  const inOneLine = `${JSON.stringify(key)}: ${inLine(value)}`;
  if (last === undefined) {
    // `{}` becomes `{ x }`. In a table with white space, the server comes right behind the brace.
    const space = table.end - table.start === 2 ? " " : "";
    return [insert(table.start + 1, `${space}${inOneLine}${space}`)];
  }
  const lead = /(\r?\n)([ \t]*)$/.exec(text.slice(0, last.start));
  const [, end = "\n", indent = ""] = lead ?? [];
  const unit = unitOf(text, table, indent);
  const added =
    lead === null
      ? ` ${inOneLine}`
      : `${end}${indent}${JSON.stringify(key)}: ${multiLine(value, { outer: indent, unit, end })}`;
  const comma = commaAfter(text, last.end);
  const from = comma === null ? last.end : comma + 1;
  const comment =
    /^[ \t]*(?:\/\/[^\r\n]*|\/\*[^\r\n]*?\*\/(?=[ \t]*\r?\n))/.exec(text.slice(from))?.[0] ?? "";
  const at = lead === null ? from : from + comment.length;
  return comma === null ? [insert(last.end, ","), insert(at, added)] : [insert(at, `${added},`)];
}

function removeMember(text: string, root: ConfigTable, keys: readonly string[]): Edit[] {
  const above = keys.slice(0, -1);
  const table = findTable(root, above);
  const member = table?.members.get(keys.at(-1) ?? "");
  if (table === undefined || member === undefined) return [];
  const others = [...table.members.values()]
    .filter((each) => each !== member)
    .toSorted((a, b) => a.end - b.end);
  const lead = /(?:\r?\n)?[ \t]*$/.exec(text.slice(0, member.start))?.[0] ?? "";
  const start = member.start - lead.length;
  const comma = commaAfter(text, member.end);
  if (others.length === 0) {
    const inner = text.slice(table.start + 1, table.end - 1);
    const tail = text.slice(member.end, table.end - 1);
    if (inner.startsWith(" ") && tail === " ") return [remove(table.start + 1, table.end - 1)];
    const wasAdded = above.length > 0 && (tail === "" || /^\r?\n/.test(inner)) && tail.trim() === "";
    if (wasAdded) return removeMember(text, root, above);
    return [remove(start, member.end), ...(comma === null ? [] : [remove(comma, comma + 1)])];
  }
  const before = others.findLast((each) => each.end <= member.start);
  const isLast = others.every((each) => each.end <= member.start);
  // The last member has no comma behind it; after its removal the one before it must have none either.
  const own = comma ?? (isLast && before !== undefined ? commaAfter(text, before.end) : null);
  return [remove(start, member.end), ...(own === null ? [] : [remove(own, own + 1)])];
}

/** The position of a comma behind a value; null: there is none. */
function commaAfter(text: string, from: number): number | null {
  const space = /^(?:\s|\/\/[^\n]*|\/\*[\s\S]*?\*\/)*/.exec(text.slice(from))?.[0] ?? "";
  return text[from + space.length] === "," ? from + space.length : null;
}

/** By how much a table is indented more than the one around it. */
function unitOf(text: string, table: ConfigTable, indent: string): string {
  const line = text.slice(text.lastIndexOf("\n", table.start) + 1, table.start);
  const outer = /^[ \t]*/.exec(line)?.[0] ?? "";
  const unit = indent.startsWith(outer) ? indent.slice(outer.length) : "";
  return unit === "" ? "  " : unit;
}

interface Layout {
  readonly outer: string;
  readonly unit: string;
  readonly end: string;
}

function isTable(value: unknown): value is Table {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function multiLine(value: Table, { outer, unit, end }: Layout): string {
  const indent = outer + unit;
  const members = Object.entries<Value>(value).map(
    ([key, inner]) =>
      `${end}${indent}${JSON.stringify(key)}: ${isTable(inner) ? multiLine(inner, { outer: indent, unit, end }) : inLine(inner)}`,
  );
  return `{${members.join(",")}${end}${outer}}`;
}

/** A table around another one has no spaces inside its braces, which shows `removeEdits` that it was added. */
function inLine(value: Value): string {
  if (Array.isArray(value)) return `[${value.map((each) => JSON.stringify(each)).join(", ")}]`;
  if (!isTable(value)) return JSON.stringify(value);
  const members = Object.entries<Value>(value).map(
    ([key, inner]) => `${JSON.stringify(key)}: ${inLine(inner)}`,
  );
  return Object.values<Value>(value).some(isTable) ? `{${members.join(", ")}}` : `{ ${members.join(", ")} }`;
}
