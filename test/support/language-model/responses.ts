import { type ModelDialect, serverSentEvent, jsonObjects, type ModelReply, parseTool } from "./dialect.js";

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
    const response = { id: "response-1", object: "response", status: "in_progress", output: [] };
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
  const usage = {
    input_tokens: 10,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 5,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 15,
  };
  return { id: "response-1", object: "response", status: "completed", output: [itemOf(reply)], usage };
}

function itemOf(reply: ModelReply): { id: string; type: string } & Record<string, unknown> {
  if ("text" in reply)
    return {
      id: "message-1",
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: reply.text, annotations: [] }],
    };
  const { name, args } = reply.call;
  return {
    id: "function-1",
    type: "function_call",
    call_id: "call_1",
    name,
    arguments: JSON.stringify(args),
    status: "completed",
  };
}
