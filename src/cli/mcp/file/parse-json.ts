import { getNodeValue, type Node, parseTree, type ParseError, printParseErrorCode } from "jsonc-parser";
import {
  badFile,
  type ConfigDocument,
  type ConfigMember,
  type ConfigTable,
  type ConfigValue,
  lineAt,
} from "./config-document.js";

/** The problem in words, by the name of the parser's error. */
const PROBLEMS: Readonly<Record<string, string>> = {
  CommaExpected: "a comma is missing",
  ColonExpected: "a colon is missing",
  CloseBraceExpected: "a closing brace is missing",
  CloseBracketExpected: "a closing bracket is missing",
  PropertyNameExpected: "a key in quotation marks is missing",
  ValueExpected: "a value is missing",
  EndOfFileExpected: "there is more text after the end",
  UnexpectedEndOfString: "a text has no closing quotation mark",
  UnexpectedEndOfComment: "a comment has no end",
};

/** Parses JSON with comments and trailing commas, which some clients accept. `path` is for messages. */
export function parseJsonDocument(text: string, path: string): ConfigDocument {
  const errors: ParseError[] = [];
  const node = parseTree(text, errors, { allowTrailingComma: true, allowEmptyContent: true });
  const [first] = errors;
  if (first !== undefined) {
    const name = printParseErrorCode(first.error);
    const line = lineAt(text, Math.min(first.offset, text.trimEnd().length));
    throw badFile(path, line, PROBLEMS[name] ?? `it is not JSON (${name})`);
  }
  const root = node === undefined ? EMPTY : toValue(node);
  if (root.kind !== "table") throw badFile(path, lineAt(text, root.start), "the file must have an object");
  return { format: "json", text, root, values: node === undefined ? {} : getNodeValue(node) };
}

const EMPTY: ConfigTable = { kind: "table", start: 0, end: 0, members: new Map(), inline: true };

function toValue(node: Node): ConfigValue {
  const span = { start: node.offset, end: node.offset + node.length };
  if (node.type === "string") return { ...span, kind: "text", text: node.value as string };
  if (node.type === "array") return { ...span, kind: "list", items: (node.children ?? []).map(toValue) };
  if (node.type !== "object") return { ...span, kind: "other", value: node.value as unknown };
  const members = new Map<string, ConfigMember>();
  // If a key is repeated, its last value counts, as with JSON.parse.
  for (const { offset, length, children } of node.children ?? []) {
    const [key, value] = children ?? [];
    if (key === undefined || value === undefined) continue;
    members.set(key.value as string, {
      ...{ start: offset, end: offset + length, keyStart: key.offset },
      value: toValue(value),
    });
  }
  return { ...span, kind: "table", members, inline: true };
}
