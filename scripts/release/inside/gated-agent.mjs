// An ACP agent whose answer to "wait" has two halves: the second follows when the file /tmp/go exists.

import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const say = (text) => {
  const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text } };
  send({ method: "session/update", params: { sessionId: "1", update } });
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") send({ id, result: { protocolVersion: 1 } });
  if (method === "session/new") send({ id, result: { sessionId: "1" } });
  if (method !== "session/prompt") continue;
  say("first half, ");
  while (params.prompt[0].text === "wait" && !existsSync("/tmp/go")) await setTimeout(50);
  say("second half");
  send({ id, result: { stopReason: "end_turn" } });
}
