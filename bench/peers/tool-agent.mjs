// An ACP agent that answers every prompt with one word. After `tree <number>` it has started the tree of processes that
// tree.sh starts, as a tool would.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const tree = fileURLToPath(new URL("tree.sh", import.meta.url));
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const results = {
  initialize: { protocolVersion: 1, agentCapabilities: { loadSession: true } },
  "session/new": { sessionId: "s" },
  "session/load": {},
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (method === "session/prompt") {
    const [, number] = /tree (\d+)/.exec(params.prompt[0].text) ?? [];
    if (number !== undefined) spawn("/bin/sh", [tree, number], { stdio: "ignore", detached: true });
    const content = { type: "text", text: "word" };
    const update = { sessionUpdate: "agent_message_chunk", content };
    send({ method: "session/update", params: { sessionId: params.sessionId, update } });
    send({ id, result: { stopReason: "end_turn" } });
  } else if (id !== undefined) send({ id, result: results[method] ?? {} });
}
