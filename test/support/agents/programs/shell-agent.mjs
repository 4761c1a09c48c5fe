// An ACP agent that runs each prompt as a shell command in a session of its own, as agents run their tools, and answers
// with its output. Usage: shell-agent.mjs [option…]: resume, load, close and delete are supported capabilities; `lies` claims
// support and then refuses; `deaf` ignores a cancel; `forever` offers only allow_always; `echo` repeats every prompt and logs it.
// A prompt `ask …` requests permission first; the prompt `ghost` is answered after the death of the agent.

import { spawn } from "node:child_process";
import { appendFileSync, existsSync } from "node:fs";
import { createInterface } from "node:readline";

const offers = new Set(process.argv.slice(2));
const { AGENT_LOG: log } = process.env;
const note = (line) => log !== undefined && appendFileSync(log, `${line}\n`);
let nextId = 1;
let running = null;
const waiting = new Map();

const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const update = (news) => say({ method: "session/update", params: { sessionId: "shell-1", update: news } });
const text = (said) =>
  update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: said } });
const offer = (name) => (offers.has(name) ? { [name]: {} } : {});

/** True: allowed. */
async function mayI(title) {
  const id = `ask-${nextId++}`;
  say({
    id,
    method: "session/request_permission",
    params: {
      sessionId: "shell-1",
      toolCall: { toolCallId: id, title, kind: "execute" },
      options: [
        { optionId: "always", name: "Always", kind: "allow_always" },
        ...(offers.has("forever") ? [] : [{ optionId: "yes", name: "Yes", kind: "allow_once" }]),
        { optionId: "no", name: "No", kind: "reject_once" },
      ],
    },
  });
  const { outcome } = await new Promise((resolve) => waiting.set(id, resolve));
  text(`<${outcome.optionId ?? outcome.outcome}>`);
  return outcome.optionId === "yes";
}

/** Writes to the agent's stdout after the agent has died. */
function ghost(id) {
  const answer = JSON.stringify({ jsonrpc: "2.0", id, result: { stopReason: "end_turn" } });
  const watch = `const was = process.ppid; setInterval(() => { if (process.ppid !== was) {
    process.stdout.write(${JSON.stringify(`${answer}\n`)}); process.exit() } }, 5); process.stderr.write("up\\n")`;
  const helper = spawn(process.execPath, ["-e", watch], { stdio: ["ignore", "inherit", "pipe"] });
  helper.stderr.once("data", () => text("the ghost is there"));
}

/** A prompt with the word HOLD is answered when `$AGENT_LOG.go` exists; one with NEVER or DIE is not. */
async function echo(id, said) {
  note(`received ${JSON.stringify(said)}`);
  if (said.includes("DIE")) {
    text("on the way");
    process.exit(1);
  }
  text(said);
  while (said.includes("NEVER") || (said.includes("HOLD") && !existsSync(`${log}.go`)))
    await new Promise((go) => setTimeout(go, 10));
  say({ id, result: { stopReason: "end_turn" } });
}

async function prompt(id, command) {
  if (offers.has("echo")) return echo(id, command);
  note(`prompt ${command.split(/[;\n]/)[0]}`);
  if (command.startsWith("ask ") && !(await mayI(command.slice(4))))
    return say({ id, result: { stopReason: "end_turn" } });
  if (command === "ghost") return ghost(id);
  const tool = spawn("sh", ["-c", command.replace(/^ask /, "")], {
    detached: true,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let cancelled = false;
  running = () => {
    cancelled = true;
    tool.kill("SIGKILL");
  };
  update({
    sessionUpdate: "tool_call",
    toolCallId: `t${id}`,
    title: command,
    kind: "execute",
    status: "in_progress",
  });
  tool.stdout.on("data", (bytes) => text(bytes.toString()));
  // The exit of the command, not the end of its output: processes that it left may hold the pipe.
  await new Promise((resolve) => tool.once("exit", resolve));
  running = null;
  say({ id, result: { stopReason: cancelled ? "cancelled" : "end_turn" } });
}

const methods = {
  initialize: () => ({
    protocolVersion: 1,
    agentCapabilities: {
      loadSession: offers.has("load"),
      sessionCapabilities: { ...offer("resume"), ...offer("close"), ...offer("delete") },
    },
  }),
  "session/new": () => ({ sessionId: "shell-1" }),
  "session/resume": () => (offers.has("lies") ? null : {}),
  "session/load": () => {
    text("told again");
    return offers.has("lies") ? null : {};
  },
  "session/close": () => ({}),
  "session/delete": () => ({}),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params, result } = JSON.parse(line);
  if (method === undefined) {
    waiting.get(id)?.(result);
    waiting.delete(id);
  } else if (method === "session/cancel") {
    note("cancel");
    if (!offers.has("deaf")) running?.();
  } else if (method === "session/prompt") {
    void prompt(id, params.prompt[0].text);
  } else {
    if (method !== "initialize") note(method);
    const answer = methods[method]?.() ?? null;
    say(
      answer === null
        ? { id, error: { code: -32002, message: "Session not found" } }
        : { id, result: answer },
    );
  }
}
process.exit(0);
