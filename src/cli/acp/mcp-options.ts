import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { RequestOf } from "../../api/contract.js";
import { BadInput } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import { splitShellWords } from "../../text/shell-words.js";

type RequestedMcpServer = NonNullable<RequestOf<"acpSpawn">["body"]["mcpServers"]>[number];

const ASSIGNMENT = /^([A-Za-z_]\w*)=(.*)$/s;

/** Parses `name=command…`, with variables before the command, or `name=https://…`. */
export function parseMcpServer(text: string): RequestedMcpServer {
  const [, name = "", rest = ""] = /^([^=\s]+)=(.+)$/s.exec(text) ?? [];
  if (name === "") throw wrong("write --mcp name=command, or --mcp name=https://…");
  if (/^https?:\/\//.test(rest)) return { type: "http", name, url: checkedUrl(rest, name), headers: [] };
  const words = splitShellWords(rest);
  if (words === null) throw wrong(`a quotation mark in the command of the MCP server ${name} is not closed`);
  const start = words.findIndex((word) => !ASSIGNMENT.test(word));
  if (start < 0) throw wrong(`the command of the MCP server ${name} is missing`);
  const env = words.slice(0, start).map((word) => {
    const [, variable = "", value = ""] = ASSIGNMENT.exec(word) ?? [];
    return { name: variable, value };
  });
  const [command = "", ...args] = words.slice(start);
  return { name, command: toCommandPath(command), args, env };
}

/** Reads a file of the shape `{ "mcpServers": { name: { command, args, env } | { type, url, headers } } }`. */
export function readMcpConfig(path: string, env: NodeJS.ProcessEnv): RequestedMcpServer[] {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(path, "utf8"));
  } catch (error) {
    throw wrong(`the file ${path} cannot be read: ${errorMessage(error)}`);
  }
  return parseMcpConfig(content, env, path);
}

export function parseMcpConfig(content: unknown, env: NodeJS.ProcessEnv, path: string): RequestedMcpServer[] {
  const servers = isTable(content) ? content["mcpServers"] : null;
  if (!isTable(servers)) throw wrong(`${path} has no object mcpServers`);
  return Object.entries(servers).map(([name, entry]) => parseEntry(name, entry, env, path));
}

/** Ignores other keys, such as `disabled`, which only other programs use. */
function parseEntry(name: string, entry: unknown, env: NodeJS.ProcessEnv, path: string): RequestedMcpServer {
  const field = `${path}: mcpServers.${name}`;
  if (!isTable(entry)) throw wrong(`${field} is not an object`);
  const text = (value: unknown, key: string): string => {
    if (typeof value === "string") return expandVariables(value, env, name);
    throw wrong(`${field}.${key} is not a string`);
  };
  const pairs = (values: unknown, key: string) => {
    if (!isTable(values)) throw wrong(`${field}.${key} is not an object`);
    return Object.entries(values).map(([each, value]) => ({
      name: each,
      value: text(value, `${key}.${each}`),
    }));
  };
  const { type, command, args = [], url } = entry;
  if ((command === undefined) === (url === undefined)) throw wrong(`${field} needs either command or url`);
  if (command === undefined) {
    const headers = pairs(entry["headers"] ?? {}, "headers");
    return { type: type === "sse" ? "sse" : "http", name, url: checkedUrl(text(url, "url"), name), headers };
  }
  if (!Array.isArray(args)) throw wrong(`${field}.args is not a list`);
  return {
    name,
    command: toCommandPath(text(command, "command")),
    args: args.map((each, at) => text(each, `args.${at}`)),
    env: pairs(entry["env"] ?? {}, "env"),
  };
}

/** Replaces `${NAME}` and `${NAME:-default}`, as other programs that read such files do. */
function expandVariables(value: string, env: NodeJS.ProcessEnv, server: string): string {
  return value.replaceAll(/\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}/g, (_, name: string, otherwise?: string) => {
    const found = env[name] ?? otherwise;
    if (found === undefined)
      throw wrong(`the MCP server ${server} uses the variable ${name}, which is not set`);
    return found;
  });
}

/** A relative path is relative to the caller's directory, not to the agent's. */
function toCommandPath(command: string): string {
  return command.includes("/") ? resolve(command) : command;
}

function checkedUrl(url: string, name: string): string {
  if (URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)) return url;
  throw wrong(`the URL of the MCP server ${name} is not one with http or https`);
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function wrong(why: string): BadInput {
  return new BadInput("mcp", `${why}; nothing was started`);
}
