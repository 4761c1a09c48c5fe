import { spawn } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";
import type { FakeLanguageModel } from "../../support/language-model/fake-language-model.js";
import { findByCommandLine, type LiveProcess } from "../../support/live-processes.js";
import { plantLookalike } from "../../support/supervisor/real-supervisor.js";
import { agentRecipes, prepareAgent } from "./agent-recipes.js";

const SLOWLY = 120_000;
const fixture = gatewayForFile();
const resolve = (name: string): string =>
  createRequire(import.meta.url).resolve(`@modelcontextprotocol/server-everything/dist/${name}.js`);
const serverPath = resolve("index");

/** Neither starts a server over stdin and stdout, and neither says so. */
const ignoring = ["copilot", "pi"];

test.each(Object.keys(agentRecipes).filter((name) => !ignoring.includes(name)))(
  "%s: a real MCP server is started by the agent and offered to its model, and ends with the session",
  async (agent) => {
    const { started, model, close } = await promptWithServer(agent);
    expect(started().length).toBeGreaterThan(0);
    expect(model.hasReceived("everything")).toBe(true);
    await close();
    expect(started()).toEqual([]);
  },
  SLOWLY,
);

test(
  "copilot: it rejects an MCP server over stdin and stdout, in its log only",
  async () => {
    const { cwd, started, model, close } = await promptWithServer("copilot");
    const logs = join(cwd, ".copilot/logs");
    const texts = await Promise.all((await readdir(logs)).map((name) => readFile(join(logs, name), "utf8")));
    expect(texts.join("")).toContain('Rejecting non-http/sse MCP server "everything" from client');
    expect(model.hasReceived("everything")).toBe(false);
    expect(started()).toEqual([]);
    await close();
  },
  SLOWLY,
);

test(
  "pi: it ignores an MCP server over stdin and stdout",
  async () => {
    const { started, model, close } = await promptWithServer("pi");
    expect(model.hasReceived("everything")).toBe(false);
    expect(started()).toEqual([]);
    await close();
  },
  SLOWLY,
);

test(
  "copilot: a real MCP server over http is offered to its model",
  async () => {
    const url = await serveOverHttp();
    const { home: cwd, model, inherit: environment } = await prepareAgent("copilot");
    const mcpServers = [{ type: "http" as const, name: "everything", url, headers: [] }];
    const { session } = await fixture.client.acpSpawn({
      body: { agent: "copilot", cwd, environment, mcpServers },
    });
    const params = { id: session.sessionId };
    const { turn } = await fixture.client.acpPrompt({ params, body: { text: "go" } });
    expect(turn).toMatchObject({ outcome: "completed" });
    expect(model.hasReceived("everything-get-sum")).toBe(true);
    await fixture.client.acpClose({ params });
  },
  SLOWLY,
);

/** A session with the reference server over stdin and stdout, after a prompt. Its lookalike must survive. */
async function promptWithServer(agent: string): Promise<{
  cwd: string;
  model: FakeLanguageModel;
  started: () => LiveProcess[];
  close: () => Promise<unknown>;
}> {
  plantLookalike(process.execPath, "-e", "setInterval(() => {}, 1000)", "--", serverPath, "stdio");
  const { home: cwd, model, inherit: environment } = await prepareAgent(agent);
  const server = { name: "everything", command: process.execPath, args: [serverPath, "stdio"], env: [] };
  const { client } = fixture;
  const { session } = await client.acpSpawn({ body: { agent, cwd, environment, mcpServers: [server] } });
  const params = { id: session.sessionId };
  const { turn } = await client.acpPrompt({ params, body: { text: "go" } });
  expect(turn).toMatchObject({ outcome: "completed" });
  return {
    ...{ cwd, model },
    started: () => findByCommandLine(serverPath).filter(({ argv }) => argv[1] === serverPath),
    close: () => client.acpClose({ params }),
  };
}

/** The reference server on a free port of loopback; by itself it listens on every interface. */
async function serveOverHttp(): Promise<string> {
  const script = `
    import { Server } from "node:net";
    const { listen } = Server.prototype;
    Server.prototype.listen = function () {
      return listen.call(this, 0, "127.0.0.1", () => console.log(this.address().port));
    };
    await import(process.argv[1]);`;
  const server = spawn(
    process.execPath,
    ["--input-type=module", "--eval", script, resolve("transports/streamableHttp")],
    { stdio: ["ignore", "pipe", "ignore"] },
  );
  const exited = once(server, "exit");
  onTestFinished(async () => {
    server.kill("SIGKILL");
    await exited;
  });
  const lines = createInterface({ input: server.stdout });
  for await (const line of lines) if (/^\d+$/.test(line)) return `http://127.0.0.1:${line}/mcp`;
  return expect.fail("the server does not listen");
}
