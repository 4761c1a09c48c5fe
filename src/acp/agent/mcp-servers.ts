import type { McpCapabilities, McpServer as ProtocolMcpServer } from "@agentclientprotocol/sdk";
import { BadInput } from "../../errors.js";
import type { McpServer } from "../../model/acp/acp.js";

/** Throws if the agent cannot connect to one of the servers. Every agent supports servers over stdin and stdout. */
export function supportedMcpServers(
  servers: readonly McpServer[],
  capabilities: McpCapabilities | null | undefined,
): ProtocolMcpServer[] {
  for (const server of servers)
    if ("type" in server && capabilities?.[server.type] !== true)
      throw new BadInput(
        "mcpServers",
        `the agent does not support MCP servers over ${server.type} (${server.name}); it was ended. Leave the server out, or use one with a command`,
      );
  return servers.map((server) =>
    "type" in server
      ? { ...server, headers: [...server.headers] }
      : { ...server, args: [...server.args], env: [...server.env] },
  );
}
