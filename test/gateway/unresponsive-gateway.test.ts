import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../src/api/client.js";
import { gatewaySocketPath } from "../../src/home/state-directory.js";
import { startGateway } from "../../src/gateway/start-in-background.js";
import { fakeGateway } from "../support/gateway/fake-gateway.js";
import { errorOf } from "../support/gateway/real-gateway.js";

/** A fake gateway that answers like one that hangs or was cut off. */
async function stuck(token: string, answer: RequestListener): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), "hf-"));
  const server = createServer(fakeGateway(token, answer));
  await new Promise<void>((resolve) => server.listen(gatewaySocketPath(home), resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await rm(home, { recursive: true });
  });
  return home;
}

test("a truncated answer means an unreachable gateway", async () => {
  const home = await stuck("t", (_, response) => {
    response.writeHead(200, { "content-length": 100 });
    response.write('{"instanceId":', () => response.destroy());
  });
  const client = createClient({ socketPath: gatewaySocketPath(home), token: "t" });
  expect(await errorOf(client.status())).toMatchObject({
    code: "GATEWAY_UNREACHABLE",
    message: expect.stringContaining("broke off") as string,
  });
});

test("a running gateway that is never ready is reported, and no second gateway is started", async () => {
  const home = await stuck("hfo_x", (_, response) => response.end(JSON.stringify({ ready: false, pid: 1 })));
  await writeFile(join(home, "operator-token"), "hfo_x");
  expect(await errorOf(startGateway(home, "/nonexistent", 100))).toEqual({
    code: "GATEWAY_UNREACHABLE",
    message: "the gateway did not start: the running gateway does not become ready",
  });
});
