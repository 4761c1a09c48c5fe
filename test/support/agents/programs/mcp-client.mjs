// A client of one stdio MCP server, as agents have one.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** Starts the server as `session/new` describes it. */
export function startServer({ name, command, args, env }) {
  const child = spawn(command, args, {
    env: { ...process.env, ...Object.fromEntries(env.map((each) => [each.name, each.value])) },
    stdio: ["pipe", "pipe", "ignore"],
  });
  const waiting = new Map();
  let nextId = 1;
  child.on("error", () => undefined);
  child.stdin.on("error", () => undefined);
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, result } = JSON.parse(line);
    waiting.get(id)?.(result);
  });
  const tell = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const request = (method, params) =>
    new Promise((resolve) => {
      waiting.set(nextId, resolve);
      tell({ id: nextId++, method, params });
    });
  return {
    name,
    pid: child.pid,
    tools: async () => {
      const clientInfo = { name: "feature-agent", version: "0" };
      await request("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
      tell({ method: "notifications/initialized" });
      return (await request("tools/list", {})).tools.map((tool) => tool.name);
    },
    call: async (tool, input) => (await request("tools/call", { name: tool, arguments: input })).content,
  };
}
