import {
  CLIENT_INFO_META_KEY,
  type Implementation,
  ProtocolError,
  ProtocolErrorCode,
  type Result,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import { toCallResult, toErrorResult } from "./call-result.js";
import type { SessionConnection, SessionConnector } from "./session/session-connection.js";
import { addResourceHandlers } from "./resources/resource-handlers.js";
import { SdkServer } from "./sdk-server.js";
import { addTaskHandlers, createTaskResult, knowsTasks, TASKS_EXTENSION } from "./tasks/tasks-extension.js";
import type { Tool, ToolCall } from "./tool.js";
import { agentsTool } from "./tools/agents.js";
import { execTool } from "./tools/exec.js";
import { processTool } from "./tools/process.js";
import { servicesTool } from "./tools/services.js";
import { sessionsTool } from "./tools/sessions.js";
import { tasksTool } from "./tools/tasks.js";

export const tools: readonly Tool[] = [
  execTool,
  processTool,
  tasksTool,
  servicesTool,
  agentsTool,
  sessionsTool,
];

const INSTRUCTIONS =
  "Holdfast runs commands for you and owns every process they start, until each is gone. " +
  "exec runs a command; one that takes longer than yieldMs continues as a task. process reads its output and types into it; " +
  "tasks waits for its end. services runs servers, agents starts other agents. " +
  "Output is paged: where something was left out, the answer says how to read it.";

const callParams = z.looseObject({ name: z.string(), arguments: z.unknown().optional() });

interface McpServerOptions {
  readonly version: string;
  readonly connector: SessionConnector;
}

/** An MCP server for one connection, or for one request over HTTP. */
export function createMcpServer({ version, connector }: McpServerOptions): SdkServer {
  const server = new SdkServer(
    { name: "holdfast", title: "Holdfast", version },
    {
      capabilities: {
        tools: {},
        resources: { subscribe: true },
        extensions: { [TASKS_EXTENSION]: {} },
      },
      instructions: INSTRUCTIONS,
    },
  );
  const connected = async <Answer>(
    context: ServerContext,
    work: (connection: SessionConnection) => Promise<Answer>,
  ): Promise<Answer> => work(await connector.connect(clientNameOf(server, context)));
  server.setRequestHandler("tools/list", () => ({ tools: tools.map(describeTool) }));
  addResourceHandlers(server, connected);
  addTaskHandlers(server, connected);
  server.setRequestHandler("tools/call", { params: callParams }, (params, context) =>
    callTool(params, context, (work) => connected(context, work)),
  );
  return server;
}

function describeTool({ name, title, description, annotations, inputSchema, outputSchema }: Tool) {
  return { name, title, description, annotations: { title, ...annotations }, inputSchema, outputSchema };
}

async function callTool(
  { name, arguments: given }: z.output<typeof callParams>,
  context: ServerContext,
  connected: (work: (connection: SessionConnection) => Promise<Result>) => Promise<Result>,
): Promise<Result> {
  const tool = tools.find((each) => each.name === name);
  if (tool === undefined)
    throw new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      `Unknown tool: ${JSON.stringify(name).slice(0, 200)}; tools/list shows those there are`,
    );
  try {
    return await connected(async (connection) => {
      const answer = await tool.call(given, { ...connection, ...callContext(context) });
      const { taskId = null } = answer;
      return taskId !== null && knowsTasks(context)
        ? createTaskResult(connection, taskId)
        : toCallResult(answer);
    });
  } catch (error) {
    return toErrorResult(error);
  }
}

function callContext({ mcpReq }: ServerContext): Pick<ToolCall, "signal" | "reportProgress"> {
  const { signal, notify, _meta } = mcpReq;
  const progressToken = _meta?.progressToken;
  if (progressToken === undefined) return { signal, reportProgress: null };
  let progress = 0;
  let sending = false;
  return {
    signal,
    reportProgress: (message) => {
      progress += 1;
      // The client has not read the last one.
      if (sending) return;
      sending = true;
      const params = { progressToken, progress, message };
      const sent = (): void => {
        sending = false;
      };
      // The client may be gone.
      notify({ method: "notifications/progress", params }).then(sent, sent);
    },
  };
}

function clientNameOf(server: SdkServer, { mcpReq }: ServerContext): string {
  const envelope = mcpReq.envelope as Readonly<Record<string, unknown>> | undefined;
  const info = envelope?.[CLIENT_INFO_META_KEY] as Implementation | undefined;
  // Clients of earlier revisions send their name only in `initialize`.
  // oxlint-disable-next-line typescript/no-deprecated
  return info?.name ?? server.getClientVersion()?.name ?? "";
}
