import {
  type JsonObject,
  jsonObjects,
  type ModelDialect,
  type ModelReply,
  parseTool,
  serverSentEvent,
} from "./dialect.js";

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
