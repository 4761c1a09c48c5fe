// An MCP server as many are: one tool, which runs a command with child_process and answers with its output.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { McpServer } from "@modelcontextprotocol/server";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const execute = promisify(execFile);
const server = new McpServer({ name: "naive", version: "0" });
server.registerTool(
  "exec",
  { description: "Runs a command.", inputSchema: z.object({ argv: z.array(z.string()) }) },
  async ({ argv: [program, ...args] }) => {
    const { stdout } = await execute(program, args);
    return { content: [{ type: "text", text: stdout }] };
  },
);
await server.connect(new StdioServerTransport());
