// An ACP agent that sends as many words as the prompt asks for, as fast as they are read.
import { createInterface } from "node:readline";

const say = (message) =>
  new Promise((resolve) =>
    process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`, resolve),
  );
const results = { initialize: { protocolVersion: 1 }, "session/new": { sessionId: "s" } };
const word = (text) => ({
  method: "session/update",
  params: {
    sessionId: "s",
    update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text } },
  },
});

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (method === "session/prompt") {
    const [words, characters = 0] = params.prompt[0].text.split(" ").map(Number);
    let written;
    for (let at = 0; at < words; at++) {
      written = say(word(`word ${at} `.padEnd(characters)));
      if (at % 256 === 255 || characters > 0) await written;
    }
    await written;
    await say({ id, result: { stopReason: "end_turn" } });
  } else if (id !== undefined) await say({ id, result: results[method] ?? {} });
}
