import { expect, test } from "vitest";
import { parseConfig } from "../../../src/config/schema.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";
import { eachTransport } from "../../support/mcp/each-transport.js";
import { callTool } from "../../support/mcp/mcp-clients.js";

const fixture = gatewayForFile({ config: parseConfig('[gateway]\nlisten = "127.0.0.1:0"', "c.toml") });
const overHttp = eachTransport(fixture, "allow").filter(({ name }) => name.startsWith("HTTP, 2026"));

/** Nothing listens there: the port of discard(9). */
const PORT = 9;

test.each(overHttp)("a service that does not listen says what happened to it", async ({ open }) => {
  const client = await open();
  const start = (command: string, readyMs: number) =>
    callTool(client, "services", { action: "start", command, port: PORT, readyMs });
  const late = await start("echo begun; exec sleep 300", 200);
  expect(late).toMatchObject({ isError: true, data: { readiness: "timeout" } });
  expect(late.text).toMatch(/^begun\n\[run_\w+ did not listen on port 9 in time and was stopped\b/);
  const over = await start("exit 3", 60_000);
  expect(over).toMatchObject({ isError: true, data: { readiness: "ended" } });
  expect(over.text).toMatch(/^\[run_\w+ failed with exit code 3 before it listened on port 9\b/);
  await client.close();
});

test.each(overHttp)("a command beyond its timeoutMs says so", async ({ open }) => {
  const client = await open();
  const { text, data } = await callTool(client, "exec", { command: "exec sleep 300", timeoutMs: 100 });
  expect(text).toMatch(/^\[run_\w+ was stopped because its time was over\b/);
  expect(data).toMatchObject({ failure: "overall-timeout" });
  await client.close();
});
