import {
  type ModelDialect,
  serverSentEvent,
  isJsonObject,
  jsonObjects,
  type ModelReply,
  parseTool,
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
        id: "chat-1",
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
      id: "chat-1",
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
    id: "call_1",
    type: "function",
    function: { name, arguments: JSON.stringify(args) },
  };
  return { delta: { content: null, tool_calls: [call] }, finish: "tool_calls" };
}
