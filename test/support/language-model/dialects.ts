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
  readonly properties: Readonly<Record<string, { readonly type?: unknown; readonly items?: unknown }>>;
  readonly required: readonly string[];
}

export type ModelAnswer =
  | { readonly text: string }
  | { readonly call: { readonly name: string; readonly args: Readonly<Record<string, unknown>> } };

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

const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };

/** OpenAI's chat completions. */
export const chatCompletions: ModelDialect = {
  matches: (path) => path.endsWith("/chat/completions"),
  read(body) {
    const tools = jsonObjects(body["tools"]).map(({ function: offered }) =>
      isJsonObject(offered) ? parseTool(offered["name"], offered["parameters"]) : parseTool("", {}),
    );
    const last = jsonObjects(body["messages"]).at(-1)?.["role"];
    return {
      kind: tools.length === 0 ? "aside" : last === "tool" ? "tool-result" : "prompt",
      streamed: body["stream"] === true,
      tools,
    };
  },
  stream(reply) {
    const chunk = (delta: object, finish: string | null): string =>
      serverSentEvent({
        id: `chat-${reply.number}`,
        object: "chat.completion.chunk",
        created: 1,
        model: "fake",
        choices: [{ index: 0, delta, finish_reason: finish }],
        ...(finish === null ? {} : { usage }),
      });
    const { delta, finish } = deltaOf(reply);
    return [chunk({ role: "assistant", ...delta }, null), chunk({}, finish), serverSentEvent("[DONE]")];
  },
  whole(reply) {
    const { delta, finish } = deltaOf(reply);
    return {
      id: `chat-${reply.number}`,
      object: "chat.completion",
      created: 1,
      model: "fake",
      choices: [{ index: 0, message: { role: "assistant", ...delta }, finish_reason: finish }],
      usage,
    };
  },
};

function deltaOf(reply: ModelReply): { delta: object; finish: string } {
  if ("text" in reply) return { delta: { content: reply.text }, finish: "stop" };
  const { name, args } = reply.call;
  const call = {
    index: 0,
    id: `call_${reply.number}`,
    type: "function",
    function: { name, arguments: JSON.stringify(args) },
  };
  return { delta: { content: null, tool_calls: [call] }, finish: "tool_calls" };
}

/** OpenAI's responses. */
export const responses: ModelDialect = {
  matches: (path) => path.endsWith("/responses"),
  read(body) {
    const tools = jsonObjects(body["tools"])
      .filter(({ type }) => type === "function")
      .map(({ name, parameters }) => parseTool(name, parameters));
    const last = jsonObjects(body["input"]).at(-1)?.["type"];
    return {
      kind: tools.length === 0 ? "aside" : last === "function_call_output" ? "tool-result" : "prompt",
      streamed: body["stream"] === true,
      tools,
    };
  },
  stream(reply) {
    const response = {
      id: `response-${reply.number}`,
      object: "response",
      status: "in_progress",
      output: [],
    };
    const item = itemOf(reply);
    const steps = [
      { type: "response.created", response },
      { type: "response.output_item.added", output_index: 0, item: { ...item, status: "in_progress" } },
      ...("text" in reply
        ? [
            {
              type: "response.output_text.delta",
              output_index: 0,
              content_index: 0,
              item_id: item.id,
              delta: reply.text,
            },
          ]
        : []),
      { type: "response.output_item.done", output_index: 0, item },
      { type: "response.completed", response: responseOf(reply) },
    ];
    return steps.map((step) => serverSentEvent(step, step.type));
  },
  whole: responseOf,
};

function responseOf(reply: ModelReply): object {
  const tokens = {
    input_tokens: 10,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 5,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 15,
  };
  return {
    id: `response-${reply.number}`,
    object: "response",
    status: "completed",
    output: [itemOf(reply)],
    usage: tokens,
  };
}

function itemOf(reply: ModelReply): { id: string; type: string } & Record<string, unknown> {
  if ("text" in reply)
    return {
      id: `message-${reply.number}`,
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: reply.text, annotations: [] }],
    };
  const { name, args } = reply.call;
  return {
    id: `function-${reply.number}`,
    type: "function_call",
    call_id: `call_${reply.number}`,
    name,
    arguments: JSON.stringify(args),
    status: "completed",
  };
}

/** Gemini's generateContent. */
export const generateContent: ModelDialect = {
  matches: (path) => /:(?:streamGenerate|generate)Content$/.test(path),
  read(body, path) {
    const tools = jsonObjects(body["tools"])
      .flatMap(({ functionDeclarations }) => jsonObjects(functionDeclarations))
      .map(({ name, parametersJsonSchema, parameters }) =>
        parseTool(name, parametersJsonSchema ?? parameters),
      );
    const last = jsonObjects(jsonObjects(body["contents"]).at(-1)?.["parts"]);
    const afterTool = last.some((part) => "functionResponse" in part);
    return {
      kind: tools.length === 0 ? "aside" : afterTool ? "tool-result" : "prompt",
      streamed: path.includes(":streamGenerate"),
      tools,
    };
  },
  stream: (reply) => [serverSentEvent(generatedContent(reply))],
  whole: generatedContent,
};

function generatedContent(reply: ModelReply): object {
  const part = "text" in reply ? { text: reply.text } : { functionCall: reply.call };
  return {
    candidates: [{ content: { role: "model", parts: [part] }, finishReason: "STOP", index: 0 }],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 },
    modelVersion: "fake",
  };
}

/** Anthropic's messages. */
export const messages: ModelDialect = {
  matches: (path) => path.endsWith("/v1/messages"),
  read(body) {
    const tools = jsonObjects(body["tools"]).map(({ name, input_schema }) => parseTool(name, input_schema));
    const last = jsonObjects(
      jsonObjects(body["messages"]).findLast(({ role }) => role === "user")?.["content"],
    );
    const afterTool = last.some(({ type }) => type === "tool_result");
    return {
      kind: tools.length === 0 ? "aside" : afterTool ? "tool-result" : "prompt",
      streamed: body["stream"] === true,
      tools,
    };
  },
  stream(reply) {
    const { content, stop_reason, ...start } = messageOf(reply);
    const [block] = content;
    const delta =
      "text" in reply
        ? { type: "text_delta", text: reply.text }
        : { type: "input_json_delta", partial_json: JSON.stringify(reply.call.args) };
    const empty = "text" in reply ? { text: "" } : { input: {} };
    const steps = [
      { type: "message_start", message: { ...start, content: [], stop_reason: null } },
      { type: "content_block_start", index: 0, content_block: { ...block, ...empty } },
      { type: "content_block_delta", index: 0, delta },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage: { output_tokens: 5 } },
      { type: "message_stop" },
    ];
    return steps.map((step) => serverSentEvent(step, step.type));
  },
  whole: messageOf,
};

function messageOf(reply: ModelReply): { content: readonly object[]; stop_reason: string } & JsonObject {
  const block =
    "text" in reply
      ? { type: "text", text: reply.text }
      : { type: "tool_use", id: `toolu_${reply.number}`, name: reply.call.name, input: reply.call.args };
  return {
    id: `message-${reply.number}`,
    type: "message",
    role: "assistant",
    model: "claude-sonnet-4-5",
    content: [block],
    stop_reason: "text" in reply ? "end_turn" : "tool_use",
    stop_sequence: null,
    usage: { input_tokens: 10, output_tokens: 5 },
  };
}
