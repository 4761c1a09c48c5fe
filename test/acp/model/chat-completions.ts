import { type Dialect, event, isJson, listOf, type Reply, toolOf } from "./dialect.js";

const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };

/** OpenAI's chat completions. */
export const chatCompletions: Dialect = {
  matches: (path) => path.endsWith("/chat/completions"),
  read(body) {
    const tools = listOf(body["tools"]).map(({ function: offered }) =>
      isJson(offered) ? toolOf(offered["name"], offered["parameters"]) : toolOf("", {}),
    );
    const last = listOf(body["messages"]).at(-1)?.["role"];
    return {
      kind: tools.length === 0 ? "aside" : last === "tool" ? "tool-result" : "prompt",
      streamed: body["stream"] === true,
      tools,
    };
  },
  stream(reply) {
    const chunk = (delta: object, finish: string | null): string =>
      event({
        id: "chat-1",
        object: "chat.completion.chunk",
        created: 1,
        model: "fake",
        choices: [{ index: 0, delta, finish_reason: finish }],
        ...(finish === null ? {} : { usage }),
      });
    const { delta, finish } = said(reply);
    return [chunk({ role: "assistant", ...delta }, null), chunk({}, finish), event("[DONE]")];
  },
  whole(reply) {
    const { delta, finish } = said(reply);
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

function said(reply: Reply): { delta: object; finish: string } {
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
