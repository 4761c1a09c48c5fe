import { z } from "zod";
import type { McpServer } from "../model/acp/session-and-turn.js";
import { isSecretName } from "../text/redact.js";
import { anyVariableName, argument, tableName } from "./agents.js";

/** More servers than any agent is useful with. */
export const MAX_MCP_SERVERS = 32;

const url = z.url({ protocol: /^https?$/, error: "must be a URL with http or https" }).max(4_096);
const headerName = z.string().regex(/^[\w!#$%&'*+.^`|~-]{1,200}$/, "must be the name of a header");

const mcpServer = z
  .strictObject({
    /** The agent starts it, and communicates with it over stdin and stdout. */
    command: argument.optional(),
    args: z.array(z.string().max(65_536)).max(256).default([]),
    env: z.record(anyVariableName, z.string().max(65_536)).default({}),
    url: url.optional(),
    type: z.enum(["http", "sse"]).default("http"),
    headers: z.record(headerName, z.string().max(65_536)).default({}),
    /** Agents of the catalogue that get it. Absent: every session over ACP. */
    agents: z.array(tableName).min(1).max(64).optional(),
  })
  .refine(
    (entry) => (entry.command === undefined) !== (entry.url === undefined),
    "needs either command or url",
  );

/** The table `[mcp]` of the configuration: MCP servers for ACP agents, by name. */
export const mcpTablesSchema = z
  .record(tableName, mcpServer)
  .refine((all) => Object.keys(all).length <= MAX_MCP_SERVERS, `has more than ${MAX_MCP_SERVERS} servers`);

/** The keys of one entry. */
export const mcpKeys = Object.keys(mcpServer.shape);

export type ConfiguredMcpServer = z.output<typeof mcpServer>;

/** True if a variable or header of the server may be a secret. */
export function hasSecret({ env, headers }: ConfiguredMcpServer): boolean {
  return Object.keys(headers).length > 0 || Object.keys(env).some(isSecretName);
}

/** The servers of a session: those of the config for its agent, and the requested ones, which replace those with the same name. */
export function resolveMcpServers(
  configured: Readonly<Record<string, ConfiguredMcpServer>>,
  agent: string | null,
  requested: readonly McpServer[] = [],
): readonly McpServer[] {
  const servers = new Map<string, McpServer>();
  for (const [name, entry] of Object.entries(configured))
    if (entry.agents === undefined || (agent !== null && entry.agents.includes(agent)))
      servers.set(name, toMcpServer(name, entry));
  for (const server of requested) servers.set(server.name, server);
  return [...servers.values()];
}

/** The server as the protocol describes it. */
function toMcpServer(name: string, entry: Omit<ConfiguredMcpServer, "agents">): McpServer {
  const { command, args, env, type, headers } = entry;
  return command === undefined
    ? { type, name, url: entry.url ?? "", headers: toList(headers) }
    : { name, command, args, env: toList(env) };
}

function toList(values: Readonly<Record<string, string>>) {
  return Object.entries(values).map(([name, value]) => ({ name, value }));
}
