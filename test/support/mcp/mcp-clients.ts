import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect } from "vitest";
import { cliPath } from "../cli/cli-fixture.js";
import { scaled } from "../scale.js";

/** The protocol revisions that a client of the SDK can be limited to. */
export const ERAS = ["2025-11-25", "2026-07-28"] as const;
type Era = (typeof ERAS)[number];

/** The official SDK's client, of one protocol revision. */
export function newMcpClient(era: Era): Client {
  const mode = era === "2025-11-25" ? ("legacy" as const) : { pin: era };
  return new Client({ name: "probe", version: "1.0.0" }, { versionNegotiation: { mode } });
}

export async function connectOverHttp(
  client: Client,
  listen: string,
  token: string,
  options: { readonly fetch?: typeof fetch } = {},
): Promise<Client> {
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  const url = new URL(`http://${listen}/mcp`);
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit, ...options }));
  return client;
}

/** Starts `holdfast mcp`. The client ends it. */
export async function connectOverStdio(
  client: Client,
  home: string,
  args: readonly string[] = ["--allow", "*"],
  cwd: string = home,
): Promise<{ readonly client: Client; readonly pid: number }> {
  const env = Object.fromEntries(
    Object.entries({ ...process.env, HOLDFAST_HOME: home }).filter(([, value]) => value !== undefined),
  ) as Record<string, string>;
  const transport = new StdioClientTransport({
    ...{ command: process.execPath, args: [cliPath, "mcp", ...args], cwd, env },
    stderr: "ignore",
  });
  await client.connect(transport);
  return { client, pid: transport.pid ?? 0 };
}

export interface ToolResult<Data> {
  readonly text: string;
  readonly data: Data;
  readonly isError: boolean;
}

/** Calls a tool. The SDK's client checks the structured content against the tool's output schema. */
export async function callTool<Data = Record<string, unknown>>(
  client: Client,
  name: string,
  args: Record<string, unknown> = {},
  options: Parameters<Client["callTool"]>[1] = {},
): Promise<ToolResult<Data>> {
  // The SDK gives up after 60 s, also on a machine on which every process waits for a processor.
  const timeout = scaled(60_000);
  const called = client.callTool({ name, arguments: args }, { timeout, ...options });
  const { content, structuredContent, isError } = await called;
  const [first] = content;
  expect(first?.type).toBe("text");
  const text = first?.type === "text" ? first.text : "";
  return { text, data: structuredContent as Data, isError: isError === true };
}

/** A request of the revision 2026-07-28, as a client sends it that knows the tasks extension; the SDK's does not. */
export async function postRequest(
  listen: string,
  token: string,
  method: string,
  params: Readonly<Record<string, unknown>>,
  { tasks = true, signal }: { readonly tasks?: boolean; readonly signal?: AbortSignal } = {},
): Promise<Response> {
  const name = params["name"] ?? params["taskId"];
  return fetch(`http://${listen}/mcp`, {
    method: "POST",
    ...(signal === undefined ? {} : { signal }),
    headers: {
      ...{ authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...{ accept: "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28" },
      "mcp-method": method,
      ...(typeof name === "string" ? { "mcp-name": name } : {}),
    },
    body: JSON.stringify({
      ...{ jsonrpc: "2.0", id: 7, method },
      params: {
        ...params,
        _meta: {
          "io.modelcontextprotocol/protocolVersion": "2026-07-28",
          "io.modelcontextprotocol/clientInfo": { name: "probe", version: "1" },
          "io.modelcontextprotocol/clientCapabilities": tasks
            ? { extensions: { "io.modelcontextprotocol/tasks": {} } }
            : {},
        },
      },
    }),
  });
}
