import type { ConfigFile } from "./clients.js";
import {
  type ConfigDocument,
  type ConfigTable,
  type ConfigValue,
  findTable,
  findValue,
} from "./file/config-document.js";
import { readWrappedCommand, startsHoldfastMcp, type WrappedCommand } from "./wrapped-command.js";

type TextValue = Extract<ConfigValue, { readonly kind: "text" }>;

/** The words that start a server, as they are in the file. */
export interface ServerCommand {
  /** The table of the server. */
  readonly table: ConfigTable;
  /** In the table, or in the list. */
  readonly words: readonly TextValue[];
  /** `command` is a list with all words; otherwise it is the first word, and `args` has the rest. */
  readonly inOneList: boolean;
}

/** An MCP server in a file, and what wrap can do with it. */
export interface ServerEntry {
  readonly name: string;
  /** The keys from the top of the file, with the name. */
  readonly path: readonly string[];
  readonly state: ServerState;
}

type ServerState =
  | { readonly kind: "stdio"; readonly command: ServerCommand }
  /** `holdfast mcp wrap` has written it. */
  | { readonly kind: "wrapped"; readonly command: ServerCommand; readonly wrapped: WrappedCommand }
  /** It starts Holdfast's own server. */
  | { readonly kind: "holdfast"; readonly command: ServerCommand }
  | { readonly kind: "left-alone"; readonly reason: string };

/** The MCP servers of a file, in its order. */
export function serverEntries(file: ConfigFile, document: ConfigDocument): ServerEntry[] {
  return file.tables.flatMap((path) =>
    expandPath(document.root, path).flatMap((tablePath) => {
      const table = findTable(document.root, tablePath);
      return [...(table?.members ?? [])].flatMap(([name, { value }]) => {
        if (value.kind !== "table" || isGroup(file, tablePath, name, value)) return [];
        const off = isListedAsOff(document.root, tablePath, name);
        return [{ name, path: [...tablePath, name], state: serverState(value, off) }];
      });
    }),
  );
}

/** `*` stands for every key. */
function expandPath(root: ConfigTable, path: readonly string[]): string[][] {
  const star = path.indexOf("*");
  if (star === -1) return [[...path]];
  const before = path.slice(0, star);
  const keys = [...(findTable(root, before)?.members.keys() ?? [])];
  return keys.flatMap((key) => expandPath(root, [...before, key, ...path.slice(star + 1)]));
}

/** In OpenCode's `mcp`, `servers` may be a server of that name, or the table of servers of version 2. */
function isGroup(file: ConfigFile, path: readonly string[], name: string, table: ConfigTable): boolean {
  if (file.client !== "opencode" || path.length !== 1 || name !== "servers") return false;
  return !["type", "command", "url", "enabled"].some((key) => {
    const value = findValue(table, [key]);
    return value !== undefined && value.kind !== "table";
  });
}

/** Lists of names that switch servers off: of Gemini CLI, and of a project in the file of Claude Code. */
function isListedAsOff(root: ConfigTable, path: readonly string[], name: string): boolean {
  const lists = [
    ["mcp", "excluded"],
    [...path.slice(0, -1), "disabledMcpServers"],
  ];
  return lists.some((list) => {
    const value = findValue(root, list);
    return value?.kind === "list" && value.items.some((item) => item.kind === "text" && item.text === name);
  });
}

function serverState(table: ConfigTable, off: boolean): ServerState {
  const leftAlone = (reason: string): ServerState => ({ kind: "left-alone", reason });
  const text = (key: string): string | null => {
    const value = findValue(table, [key]);
    return value?.kind === "text" ? value.text : null;
  };
  const flag = (key: string): unknown => {
    const value = findValue(table, [key]);
    return value?.kind === "other" ? value.value : undefined;
  };
  const command = serverCommand(table);
  const words = command?.words.map((word) => word.text) ?? [];
  const wrapped = readWrappedCommand(words);
  // A disabled server counts too: an undo must restore every server.
  if (command !== null && wrapped !== null && wrapped.byWrap) return { kind: "wrapped", command, wrapped };
  if (command !== null && startsHoldfastMcp(words)) return { kind: "holdfast", command };
  if (off || flag("enabled") === false || flag("disabled") === true) return leftAlone("disabled");
  if (["url", "httpUrl", "serverUrl"].some((key) => text(key) !== null)) return leftAlone("remote");
  const type = text("type");
  if (type !== null && !["stdio", "local"].includes(type)) return leftAlone(`remote (${type})`);
  if (command === null) return leftAlone("has no command that can be read");
  const elsewhere = startedElsewhere(table);
  if (elsewhere !== null) return leftAlone(elsewhere);
  if (wrapped !== null) return leftAlone("starts through Holdfast already");
  // An undo could not distinguish it from an option of `holdfast run`.
  if (words[0]?.startsWith("-") === true) return leftAlone("its command looks like an option");
  return { kind: "stdio", command };
}

/**
 * The reason why a server cannot be wrapped: its client confines it, debugs it, or starts it elsewhere. The gateway starts
 * the command of a wrapped server, so a sandbox around the command in the file would not contain the server.
 */
function startedElsewhere(table: ConfigTable): string | null {
  const value = (...path: string[]): unknown => {
    const found = findValue(table, path);
    return found?.kind === "text" ? found.text : found?.kind === "other" ? found.value : found;
  };
  if (value("sandboxEnabled") === true) return "its client confines it to a sandbox";
  if (value("dev", "debug") !== undefined) return "its client debugs it";
  if (value("experimental_environment") === "remote") return "its client starts it in another environment";
  return null;
}

/** Null: the table has no command, or has it in a form that no client documents. */
function serverCommand(table: ConfigTable): ServerCommand | null {
  const command = findValue(table, ["command"]);
  const args = findValue(table, ["args"]);
  if (command?.kind === "list") {
    const words = textItems(command.items);
    return words === null || words.length === 0 ? null : { table, words, inOneList: true };
  }
  if (command?.kind !== "text" || command.text === "") return null;
  if (args === undefined) return { table, words: [command], inOneList: false };
  const rest = args.kind === "list" ? textItems(args.items) : null;
  return rest === null ? null : { table, words: [command, ...rest], inOneList: false };
}

function textItems(items: readonly ConfigValue[]): TextValue[] | null {
  const words = items.flatMap((item) => (item.kind === "text" ? [item] : []));
  return words.length === items.length ? words : null;
}
