import { serveStdio } from "@modelcontextprotocol/server/stdio";
import type { SessionConnector } from "../session/session-connection.js";
import { SubscribingTransport } from "./subscribing-transport.js";
import { createMcpServer } from "../server.js";
import { StdioTransport } from "./stdio-transport.js";

/** Serves MCP over stdin and stdout until the client closes one of them. */
export async function serveOverStdio(version: string, connector: SessionConnector): Promise<void> {
  const wire = new StdioTransport(process.stdin, process.stdout);
  const transport = new SubscribingTransport(wire, connector);
  serveStdio(() => createMcpServer({ version, connector }), { transport });
  await wire.ended;
}
