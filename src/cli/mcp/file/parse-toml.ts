import { parse, TomlError } from "smol-toml";
import { type AST, parseTOML } from "toml-eslint-parser";
import {
  badFile,
  type ConfigDocument,
  type ConfigMember,
  type ConfigTable,
  type ConfigValue,
  type Span,
} from "./config-document.js";

/** Parses TOML. One parser checks the file and reads the values, the other one finds their positions. */
export function parseTomlDocument(text: string, path: string): ConfigDocument {
  const values = parseValues(text, path);
  const root = newTable({ start: 0, end: text.length });
  for (const node of parseTOML(text, { filePath: path }).body[0].body) {
    if (node.type === "TOMLKeyValue") addKeyValue(root, node, text);
    else addTable(root, node, text);
  }
  return { format: "toml", text, root, values };
}

function parseValues(text: string, path: string): unknown {
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const [problem = ""] = error.message.replace(/^Invalid TOML document: /, "").split("\n");
    throw badFile(path, error.line, `it is not TOML: ${problem}`);
  }
}

/** A table that is being read. */
interface OpenTable extends ConfigTable {
  readonly members: Map<string, ConfigMember>;
}

function newTable(span: Span, inline = false): OpenTable {
  const { start, end } = span;
  return { kind: "table", start, end, members: new Map(), inline };
}

/** The table of one key. Created if this is its first part. Null: the value of the key is not a table. */
function enterTable(
  table: OpenTable,
  key: string,
  span: Span & { readonly keyStart: number },
): OpenTable | null {
  const known = table.members.get(key)?.value;
  // All tables in the tree come from this parser, so they are open tables.
  if (known !== undefined) return known.kind === "table" ? (known as OpenTable) : null;
  const value = newTable(span);
  table.members.set(key, { ...span, value });
  return value;
}

function addTable(root: OpenTable, node: AST.TOMLTable, text: string): void {
  // No client has servers in an array of tables.
  if (node.kind === "array" || node.resolvedKey.some((key) => typeof key === "number")) return;
  let table: OpenTable | null = root;
  for (const key of node.resolvedKey)
    if (table !== null)
      table = enterTable(table, String(key), { ...spanOf(node), keyStart: spanOf(node.key).start });
  if (table !== null) for (const each of node.body) addKeyValue(table, each, text);
}

function addKeyValue(table: OpenTable, node: AST.TOMLKeyValue, text: string): void {
  const keys = node.key.keys;
  let inside: OpenTable | null = table;
  for (const key of keys.slice(0, -1))
    if (inside !== null)
      inside = enterTable(inside, nameOf(key), { ...spanOf(node), keyStart: spanOf(key).start });
  const last = keys.at(-1);
  if (inside === null || last === undefined) return;
  const member = { ...spanOf(node), keyStart: spanOf(last).start, value: toValue(node.value, text) };
  inside.members.set(nameOf(last), member);
}

function toValue(node: AST.TOMLContentNode, text: string): ConfigValue {
  const span = spanOf(node);
  if (node.type === "TOMLArray")
    return { ...span, kind: "list", items: node.elements.map((each) => toValue(each, text)) };
  if (node.type === "TOMLInlineTable") {
    const table = newTable(span, true);
    for (const each of node.body) addKeyValue(table, each, text);
    return table;
  }
  if (node.kind === "string") return { ...span, kind: "text", text: stringValue(node, text) };
  return { ...span, kind: "other", value: node.value };
}

/** The value of a string of several lines as the other parser reads it, which keeps CRLF. */
function stringValue(node: AST.TOMLStringValue, text: string): string {
  if (!node.multiline) return node.value;
  const { value } = parse(`value = ${text.slice(...node.range)}`);
  return typeof value === "string" ? value : node.value;
}

function nameOf(key: AST.TOMLBare | AST.TOMLQuoted): string {
  return key.type === "TOMLBare" ? key.name : key.value;
}

function spanOf({ range: [start, end] }: AST.TOMLNode): Span {
  return { start, end };
}
