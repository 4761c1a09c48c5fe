/** A request of an agent to the model. */
export interface ModelRequest {
  /** `aside`: no tool was offered (titles, summaries, checks). */
  readonly kind: "prompt" | "tool-result" | "aside";
  readonly streamed: boolean;
  readonly tools: readonly ModelTool[];
}

/** A function that the model may call; its parameters as JSON Schema. */
export interface ModelTool {
  readonly name: string;
  /** The group of tools that it is in; Codex has one for each MCP server. */
  readonly namespace?: string;
  readonly properties: Readonly<Record<string, { readonly type?: unknown; readonly items?: unknown }>>;
  readonly required: readonly string[];
}

export type ModelAnswer = { readonly text: string } | { readonly call: ModelCall };

interface ModelCall {
  readonly name: string;
  readonly namespace?: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** The number is part of the ids in the reply: some agents ignore a message or a tool call with an id they have seen. */
export type ModelReply = ModelAnswer & { readonly number: number };

/** One HTTP API of language models. */
export interface ModelDialect {
  matches(path: string): boolean;
  read(body: JsonObject, path: string): ModelRequest;
  /** The events of a stream. */
  stream(reply: ModelReply): readonly string[];
  /** The whole answer, if no stream was requested. */
  whole(reply: ModelReply): unknown;
}

export type JsonObject = Readonly<Record<string, unknown>>;

export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const jsonObjects = (value: unknown): JsonObject[] =>
  Array.isArray(value) ? value.filter(isJsonObject) : [];

export function parseTool(name: unknown, parameters: unknown): ModelTool {
  const schema = isJsonObject(parameters) ? parameters : {};
  return {
    name: String(name),
    properties: (isJsonObject(schema["properties"]) ? schema["properties"] : {}) as ModelTool["properties"],
    required: Array.isArray(schema["required"]) ? schema["required"].map(String) : [],
  };
}

export const serverSentEvent = (data: unknown, name?: string): string =>
  `${name === undefined ? "" : `event: ${name}\n`}data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;

const SHELL_TOOL_NAMES = [
  "Bash",
  "bash",
  "shell",
  "shell_command",
  "exec_command",
  "run_shell_command",
  "local_shell",
];

/** A call of the offered shell tool, with the parameters that it requires. */
export function callShellTool(tools: readonly ModelTool[], command: string): ModelAnswer {
  const tool = tools.find(({ name }) => SHELL_TOOL_NAMES.includes(name));
  if (tool === undefined) return { text: `no shell among ${tools.map(({ name }) => name).join(", ")}` };
  const args: Record<string, unknown> = {};
  for (const name of tool.required) args[name] = "as asked";
  const field = "cmd" in tool.properties ? "cmd" : "command";
  const words = tool.properties[field]?.type === "array";
  args[field] = words ? ["/bin/sh", "-c", command] : command;
  return { call: { name: tool.name, args } };
}
