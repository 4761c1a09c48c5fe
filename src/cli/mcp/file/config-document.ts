import { BadInput } from "../../../errors.js";

/** A part of the text of a document: from `start` up to `end`, in UTF-16 code units. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** A value of a document and its position. A table of TOML may have several parts: its span is that of the first. */
export type ConfigValue = Span &
  (
    | { readonly kind: "text"; readonly text: string }
    | { readonly kind: "list"; readonly items: readonly ConfigValue[] }
    | ConfigTable
    | { readonly kind: "other"; readonly value: unknown }
  );

export interface ConfigTable extends Span {
  readonly kind: "table";
  readonly members: ReadonlyMap<string, ConfigMember>;
  /** Written between braces: members are separated by commas, also in TOML. */
  readonly inline: boolean;
}

export interface ConfigMember extends Span {
  /** The start of its own key: in TOML, `start` is the start of a dotted key. */
  readonly keyStart: number;
  readonly value: ConfigValue;
}

export type ConfigFormat = "json" | "toml";

/** A parsed configuration file of an MCP client, with the text that it was parsed from. */
export interface ConfigDocument {
  readonly format: ConfigFormat;
  readonly text: string;
  readonly root: ConfigTable;
  /** The plain values, as another parser reads them. */
  readonly values: unknown;
}

/** Replaces a span with other text. */
export interface Edit extends Span {
  readonly text: string;
}

/** Applies edits that do not overlap. */
export function applyEdits(text: string, edits: readonly Edit[]): string {
  let result = text;
  for (const edit of inOrder(edits).toReversed())
    result = result.slice(0, edit.start) + edit.text + result.slice(edit.end);
  return result;
}

export function inOrder(edits: readonly Edit[]): Edit[] {
  return edits.toSorted((a, b) => a.start - b.start || a.end - b.end);
}

/** The value at the end of a path of keys. Undefined: there is none. */
export function findValue(table: ConfigTable, path: readonly string[]): ConfigValue | undefined {
  const [key = "", ...rest] = path;
  const value = table.members.get(key)?.value;
  if (rest.length === 0 || value === undefined) return value;
  return value.kind === "table" ? findValue(value, rest) : undefined;
}

export function findTable(table: ConfigTable, path: readonly string[]): ConfigTable | undefined {
  const value = path.length === 0 ? table : findValue(table, path);
  return value?.kind === "table" ? value : undefined;
}

/** The end of line that most of the text uses. */
export function lineEnding(text: string): "\r\n" | "\n" {
  const crlf = text.split("\r\n").length - 1;
  return crlf > 0 && crlf * 2 >= text.split("\n").length - 1 ? "\r\n" : "\n";
}

/** The error for a file that its client could not parse either. */
export function badFile(path: string, line: number | null, problem: string): BadInput {
  const where = line === null ? path : `${path}:${line}`;
  return new BadInput("file", `${where}: ${problem}; nothing was changed`);
}

/** The number of the line that has a character, from 1. */
export function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split("\n").length;
}
