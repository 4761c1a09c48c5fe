import { writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import type { CliResult } from "../../support/cli/cli-fixture.js";

let gatewayFixture: BackgroundGateway;
let path: string;
beforeEach(async () => {
  gatewayFixture = await BackgroundGateway.open();
  path = join(gatewayFixture.home, "config.toml");
});
afterEach(() => gatewayFixture[Symbol.asyncDispose]());

async function configured(...words: readonly string[]): Promise<CliResult> {
  const { child, finished } = gatewayFixture.startWith({ HOLDFAST_CONFIG: path }, ...words);
  child.stdin.end();
  return finished;
}

test("a gateway started by a command uses the config file, and status prints its address", async () => {
  await writeFile(path, '[gateway]\nlisten = "127.0.0.1:0"\n\n[defaults]\ngrace-ms = 123\n');
  expect(await configured("sessions", "create", "--key", "k")).toMatchObject({ code: 0 });
  const { stdout } = await configured("gateway", "status");
  const [, port = ""] = /listening on 127\.0\.0\.1:(\d+)\n$/.exec(stdout) ?? [];
  await new Promise<void>((resolve, reject) => {
    const socket = connect({ host: "127.0.0.1", port: Number(port) }, () => resolve(void socket.destroy()));
    socket.once("error", reject);
  });
  const client = await gatewayFixture.client();
  const { run } = await client.exec({ body: { argv: ["true"] } });
  expect(run.policy.graceMs).toBe(123);
});

test("no gateway starts with an invalid config, and each command that needs one says why", async () => {
  await writeFile(path, '[gateway]\nlisten = "0.0.0.0:7433"\n');
  const why = `${path}, line 2: gateway.listen must be a loopback address with a port`;
  const start = await configured("gateway", "start");
  expect(start).toMatchObject({ code: 125, stdout: "" });
  expect(start.stderr).toContain(`the gateway did not start: ${why}`);
  expect(start.stderr).toMatch(/^[^\n]+\n$/);
  const run = await gatewayFixture.holdfast("gateway", "run", "--listen", "192.168.0.1:1");
  expect(run).toMatchObject({ code: 2, stdout: "" });
  expect(run.stderr).toContain("--listen: gateway.listen must be a loopback address");
  expect(await configured("config", "check")).toMatchObject({ code: 2, stdout: "" });
});
