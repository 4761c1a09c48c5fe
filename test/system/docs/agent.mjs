// The agent in the console blocks: it reports one tool call and answers two prompts.

import { createInterface } from "node:readline";

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const update = (body) => send({ method: "session/update", params: { sessionId: "1", update: body } });
const sendText = (kind, text) => update({ sessionUpdate: kind, content: { type: "text", text } });

const ANSWERS = {
  "what is here?": "A server, and tests for it.",
  "how many tests?": "Twelve, and all of them pass.",
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") send({ id, result: { protocolVersion: 1 } });
  if (method === "session/new") send({ id, result: { sessionId: "1" } });
  if (method !== "session/prompt") continue;
  const [{ text }] = params.prompt;
  sendText("agent_thought_chunk", "The package file should say what this is.");
  const tool = { toolCallId: `read-${id}`, title: "package.json", kind: "read" };
  update({ sessionUpdate: "tool_call", ...tool, status: "in_progress" });
  update({ sessionUpdate: "tool_call_update", toolCallId: tool.toolCallId, status: "completed" });
  sendText("agent_message_chunk", ANSWERS[text] ?? "I do not know.");
  send({ id, result: { stopReason: "end_turn" } });
}
process.exit(0);
