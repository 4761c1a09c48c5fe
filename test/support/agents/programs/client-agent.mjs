// An ACP agent that uses its client: a prompt is a JSON list of requests, [method, params], sent one after the other; each
// answer is one line of its text. `"last"` stands for the newest terminal. With a third word `unawaited` the next
// is sent at once. The first line of its log has the client capabilities.

import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";

const { AGENT_LOG: log } = process.env;
const note = (line) => log !== undefined && appendFileSync(log, `${line}\n`);
const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const waiting = new Map();
/** Only the size of a longer output is reported. */
const LONG = 100_000;
let nextId = 1;
let last = "none";
let prompted = null;

function text(said) {
  const content = { type: "text", text: `${said}\n` };
  const update = { sessionUpdate: "agent_message_chunk", content };
  say({ method: "session/update", params: { sessionId: "client-1", update } });
}

async function ask(method, params) {
  const id = `ask-${nextId++}`;
  const more = params.terminalId === "last" ? { terminalId: last } : {};
  const answered = new Promise((resolve) => waiting.set(id, resolve));
  say({ id, method, params: { sessionId: "client-1", ...params, ...more } });
  const { result, error } = await answered;
  last = result?.terminalId ?? last;
  const { output = "" } = result ?? {};
  text(JSON.stringify(output.length > LONG ? { bytes: Buffer.byteLength(output) } : (error ?? result)));
}

function end(stopReason) {
  if (prompted !== null) say({ id: prompted, result: { stopReason } });
  prompted = null;
}

async function prompt(id, steps) {
  prompted = id;
  for (const [method, params, how] of steps) {
    const asked = ask(method, params);
    if (how !== "unawaited") await asked;
  }
  end("end_turn");
}

const methods = {
  initialize: ({ clientCapabilities }) => {
    note(JSON.stringify(clientCapabilities));
    return { protocolVersion: 1, agentCapabilities: {} };
  },
  "session/new": () => ({ sessionId: "client-1" }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const message = JSON.parse(line);
  const { id, method, params } = message;
  if (method === undefined) {
    // A second answer would be logged too.
    note(`answered ${id}`);
    waiting.get(id)?.(message);
  } else if (method === "session/cancel") end("cancelled");
  else if (method === "session/prompt") void prompt(id, JSON.parse(params.prompt[0].text));
  else say({ id, result: methods[method](params) });
}
process.exit(0);
