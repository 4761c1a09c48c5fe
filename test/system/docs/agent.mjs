// The agent of the pages: it looks at one file, and says what it was written to say.

import { createInterface } from "node:readline";

const tell = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const update = (news) => tell({ method: "session/update", params: { sessionId: "1", update: news } });
const say = (kind, text) => update({ sessionUpdate: kind, content: { type: "text", text } });

const ANSWERS = {
  "what is here?": "A server, and tests for it.",
  "how many tests?": "Twelve, and all of them pass.",
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") tell({ id, result: { protocolVersion: 1 } });
  if (method === "session/new") tell({ id, result: { sessionId: "1" } });
  if (method !== "session/prompt") continue;
  const [{ text }] = params.prompt;
  say("agent_thought_chunk", "The package file should say what this is.");
  const tool = { toolCallId: `read-${id}`, title: "package.json", kind: "read" };
  update({ sessionUpdate: "tool_call", ...tool, status: "in_progress" });
  update({ sessionUpdate: "tool_call_update", toolCallId: tool.toolCallId, status: "completed" });
  say("agent_message_chunk", ANSWERS[text] ?? "I do not know.");
  tell({ id, result: { stopReason: "end_turn" } });
}
process.exit(0);
