// An ACP agent with the optional features of the protocol. Usage: feature-agent.mjs [option…]:
//   image, audio, embeddedContext, http, sse, resume: capabilities. `login=<file>`: needs a login until the file exists;
//   its methods are `browser` (the agent creates the file), `broken` (refused), `slow` (never answered) and, if the client
//   supports it, `terminal`.
// It starts the stdio MCP servers that it is given. A prompt `mcp` is answered with their tools; `expired` with the error
// that a login is needed; any other prompt with its content blocks as JSON.
// `feature-agent.mjs … --login` asks on its terminal for a code and creates the file.

import { existsSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { startServer } from "./mcp-client.mjs";

const options = process.argv.slice(2);
const offers = (name) => options.includes(name);
const loginFile = options.find((each) => each.startsWith("login="))?.slice("login=".length) ?? null;
const isLoggedIn = () => loginFile === null || existsSync(loginFile);
const AUTH_REQUIRED = { code: -32000, message: "Authentication required" };

let servers = [];
let given = [];

const say = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const text = (said) =>
  say({
    method: "session/update",
    params: {
      sessionId: "features",
      update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text: said } },
    },
  });

function open({ mcpServers = [] }) {
  if (!isLoggedIn()) return { error: AUTH_REQUIRED };
  given = mcpServers;
  servers = mcpServers.filter(({ type }) => type === undefined).map(startServer);
  return { result: { sessionId: "features" } };
}

async function describeServers() {
  const started = [];
  for (const { name, pid, tools, call } of servers)
    started.push({ name, pid, tools: await tools(), echo: await call("echo", { message: "hello" }) });
  return JSON.stringify({ given, started });
}

const terminalLogin = {
  type: "terminal",
  id: "terminal",
  name: "Log in here",
  args: [...options, "--login"],
  env: { LOGIN_NOTE: "by terminal" },
};

/** Each returns an RPC outcome. */
const methods = {
  initialize: ({ clientCapabilities }) => ({
    result: {
      protocolVersion: 1,
      agentCapabilities: {
        promptCapabilities: {
          image: offers("image"),
          audio: offers("audio"),
          embeddedContext: offers("embeddedContext"),
        },
        mcpCapabilities: { http: offers("http"), sse: offers("sse") },
        sessionCapabilities: offers("resume") ? { resume: {} } : {},
      },
      authMethods:
        loginFile === null
          ? []
          : [
              { id: "browser", name: "Log in with a browser", description: "Opens a page" },
              { id: "broken", name: "Broken" },
              ...(offers("slow") ? [{ id: "slow", name: "Slow" }] : []),
              ...(clientCapabilities?.auth?.terminal === true ? [terminalLogin] : []),
            ],
    },
  }),
  authenticate: ({ methodId }) => {
    if (methodId === "slow") return new Promise(() => {});
    const error = { code: -32603, message: "Internal error", data: { details: "the page cannot be opened" } };
    if (methodId !== "browser") return { error };
    writeFileSync(loginFile, "by browser");
    return { result: {} };
  },
  "session/new": open,
  "session/resume": open,
  "session/prompt": async ({ prompt }) => {
    const words = prompt.at(-1).text;
    if (words === "expired")
      return { error: { ...AUTH_REQUIRED, data: { details: "the token has expired" } } };
    text(words === "mcp" ? await describeServers() : JSON.stringify(prompt));
    return { result: { stopReason: "end_turn" } };
  },
};

async function answer({ id, method, params }) {
  const unknown = () => ({ error: { code: -32601, message: "Method not found" } });
  const outcome = await (methods[method] ?? unknown)(params ?? {});
  if (id !== undefined) say({ id, ...outcome });
}

if (offers("--login")) {
  const isTerminal = process.stdin.isTTY;
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  terminal.question(isTerminal ? "code: " : "not a terminal: ", (code) => {
    terminal.close();
    const isRight = isTerminal && code === "1234";
    if (isRight) writeFileSync(loginFile, process.env.LOGIN_NOTE ?? "");
    process.exit(isRight ? 0 : 1);
  });
} else {
  for await (const line of createInterface({ input: process.stdin })) void answer(JSON.parse(line));
  process.exit(0);
}
