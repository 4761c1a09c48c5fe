import {
  isJsonObject,
  jsonObjects,
  type ModelDialect,
  type ModelReply,
  type ModelTool,
  parseTool,
  serverSentEvent,
} from "./dialect.js";

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
    const functionsOf = (offered: unknown): ModelTool[] =>
      jsonObjects(offered)
        .filter(({ type }) => type === "function")
        .map(({ name, parameters }) => parseTool(name, parameters));
    const groups = jsonObjects(body["tools"]).filter(({ type }) => type === "namespace");
    const tools = [
      ...functionsOf(body["tools"]),
      ...groups.flatMap(({ name, tools: inside }) =>
        functionsOf(inside).map((tool) => ({ ...tool, namespace: String(name) })),
      ),
    ];
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
  const { name, namespace, args } = reply.call;
  return {
    ...(namespace === undefined ? {} : { namespace }),
    id: `function-${reply.number}`,
    type: "function_call",
    call_id: `call_${reply.number}`,
    name,
    arguments: JSON.stringify(args),
    status: "completed",
  };
}
