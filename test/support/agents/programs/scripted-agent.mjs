// An ACP agent whose prompt is a JSON array of steps; it repeats any other prompt.
//   {say}, {think}: text. {update}: any update. {ask}: request permission for a title or a tool call, and print the answer. {elicit}: a question to the user with these parameters; print the answer. {wait}: until that file
//   exists. {stop}: with that reason. {fail}: with an error. {exit}: at once. {times, each}: repeat a step.
//   {line}: print it unchanged; `$ID` stands for the prompt's id.

import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const SESSION = "recital";
const tell = (message) =>
  new Promise((done) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`, done));
const update = (news) => tell({ method: "session/update", params: { sessionId: SESSION, update: news } });
const chunk = (sessionUpdate, text) => update({ sessionUpdate, content: { type: "text", text } });

let asked = 0;
let onAnswer = () => {};
let cancelled = () => {};

const steps = {
  say: (text) => chunk("agent_message_chunk", text),
  think: (text) => chunk("agent_thought_chunk", text),
  update,
  ask: async (asking) => {
    const toolCall = typeof asking === "string" ? { title: asking } : asking;
    const answered = new Promise((resolve) => (onAnswer = resolve));
    await tell({
      id: `ask-${++asked}`,
      method: "session/request_permission",
      params: {
        sessionId: SESSION,
        toolCall: { toolCallId: `ask-${asked}`, kind: "execute", ...toolCall },
        options: [
          { optionId: "always", name: "Always", kind: "allow_always" },
          { optionId: "yes", name: "Yes", kind: "allow_once" },
          { optionId: "no", name: "No", kind: "reject_once" },
        ],
      },
    });
    const { outcome } = await answered;
    await chunk("agent_message_chunk", `<${outcome.optionId ?? outcome.outcome}>`);
  },
  elicit: async (question) => {
    const answered = new Promise((resolve) => (onAnswer = resolve));
    await tell({
      id: `ask-${++asked}`,
      method: "elicitation/create",
      params: { sessionId: SESSION, mode: "form", ...question },
    });
    const { action, content } = await answered;
    await chunk(
      "agent_message_chunk",
      `<${action}${content === undefined ? "" : ` ${JSON.stringify(content)}`}>`,
    );
  },
  wait: async (path) => {
    while (!existsSync(path)) await sleep(5);
  },
  line: (line) => new Promise((done) => process.stdout.write(`${line}\n`, done)),
  exit: (code) => process.exit(code),
};

async function recite(prompt, id) {
  if (!prompt.startsWith("[")) {
    await steps.say(prompt);
    return { result: { stopReason: "end_turn" } };
  }
  for (const { times = 1, each, ...step } of JSON.parse(prompt.replaceAll("$ID", id)))
    for (let at = 0; at < times; at++) {
      const [[verb, value]] = Object.entries(each ?? step);
      if (verb === "stop") return { result: { stopReason: value } };
      if (verb === "fail") return { error: { code: -32603, message: value } };
      await steps[verb](each === undefined ? value : value.replaceAll("#", at));
    }
  return { result: { stopReason: "end_turn" } };
}

async function prompted(id, prompt) {
  const stopped = new Promise((resolve) => (cancelled = resolve)).then(() => ({
    result: { stopReason: "cancelled" },
  }));
  await tell({ id, ...(await Promise.race([recite(prompt, id), stopped])) });
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params, result } = JSON.parse(line);
  if (method === undefined) onAnswer(result);
  else if (method === "initialize") await tell({ id, result: { protocolVersion: 1 } });
  else if (method === "session/new") await tell({ id, result: { sessionId: SESSION } });
  else if (method === "session/cancel") cancelled();
  else if (method === "session/prompt") void prompted(id, params.prompt[0].text);
  else if (id !== undefined) await tell({ id, error: { code: -32601, message: "Method not found" } });
}
process.exit(0);
