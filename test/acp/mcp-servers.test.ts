import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import type { McpServer } from "../../src/model/acp/session-and-turn.js";
import { acpSessionResponse } from "../../src/queries/acp-responses.js";
import { AcpFixture, featureAgent } from "../support/agents/acp-fixture.js";
import { readProcess } from "../support/live-processes.js";
import { plantLookalike } from "../support/supervisor/real-supervisor.js";
import { waitFor } from "../support/wait-for.js";

const packagePath = createRequire(import.meta.url).resolve(
  "@modelcontextprotocol/server-everything/package.json",
);
/** The reference server of the Model Context Protocol. */
const everything = {
  name: "everything",
  command: process.execPath,
  args: [join(dirname(packagePath), "dist", "index.js"), "stdio"],
  env: [{ name: "API_KEY", value: "not-to-be-shown" }],
};
const docs: McpServer = { type: "http", name: "docs", url: "https://docs.example/mcp", headers: [] };

/** The servers that the agent was given, and those that it has started. */
async function serversOf(fixture: AcpFixture, session: string) {
  const { text, outcome } = await fixture.promptAndWait(session, "mcp");
  expect(outcome).toBe("completed");
  return JSON.parse(text) as {
    readonly given: readonly McpServer[];
    readonly started: readonly { name: string; pid: number; tools: string[]; echo: { text: string }[] }[];
  };
}

test("a real MCP server works, ends with its agent, and is given again after a restart of the gateway", async () => {
  plantLookalike(process.execPath, "-e", "setInterval(() => {}, 1000)", "--", ...everything.args);
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(featureAgent("resume", "http"), { mcpServers: [everything, docs] });
  const { given, started } = await serversOf(fixture, session);
  expect(given).toEqual([everything, docs]);
  expect(started).toMatchObject([{ name: "everything", echo: [{ text: "Echo: hello" }] }]);
  expect(started[0]?.tools).toContain("echo");
  const tree = await fixture.acp.verifyProcessTree(session);
  const pids = tree.processes.map(({ identity }) => identity.pid);
  expect(pids).toContain(started[0]?.pid);

  await fixture.signalAgent(session);
  await fixture.waitForState(session, "down");
  await waitFor("the server ends", () => readProcess(started[0]?.pid ?? 0) === null);
  const second = await fixture.restart();
  const again = await serversOf(second, session);
  expect(again.given).toEqual([everything, docs]);
  await second.close(session);
  await waitFor("the second server ends", () => readProcess(again.started[0]?.pid ?? 0) === null);
});

test("values of variables are not shown", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(featureAgent(), { mcpServers: [{ ...everything, command: "true" }] });
  const shown = acpSessionResponse(await fixture.session(session), null, null);
  expect(shown.mcpServers).toMatchObject([{ name: "everything", transport: "stdio", given: ["API_KEY"] }]);
  expect(JSON.stringify(shown)).not.toContain("not-to-be-shown");
});

test("a server over http is refused if the agent does not support it, and no session is opened", async () => {
  const fixture = await AcpFixture.open();
  const spawning = fixture.spawn(featureAgent("sse"), { mcpServers: [docs] });
  await expect(spawning).rejects.toMatchObject({ code: "BAD_INPUT" });
  const [session] = await fixture.store.listAcpSessions({});
  expect(session).toMatchObject({ state: "closed" });
  expect(session?.problem?.message).toContain("does not support MCP servers over http (docs)");
});

test("an open session without the requested server is not continued", async () => {
  const fixture = await AcpFixture.open();
  const own = { name: "own", command: "true", args: [], env: [] };
  await fixture.spawn(featureAgent(), { mcpServers: [own] });
  await fixture.spawn(featureAgent());
  await fixture.spawn(featureAgent(), { mcpServers: [own] });
  const other = fixture.spawn(featureAgent(), { mcpServers: [{ ...own, args: ["x"] }] });
  await expect(other).rejects.toMatchObject({ code: "SESSION_TAKEN" });
});
