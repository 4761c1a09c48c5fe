import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { get, type IncomingMessage } from "node:http";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { createClient } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { waitForRunEnd, gatewayForFile, errorOf, shellCommand } from "../../support/gateway/real-gateway.js";
import {
  startGatewayProcess,
  killGateway,
  waitUntilStopped,
  temporaryHomeWithBystander,
} from "../../support/gateway/gateway-process.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayForFile();
const allowed = { execRules: [{ effect: "allow" as const }] };

async function codeOf(token: string): Promise<string> {
  return fixture
    .as(token)
    .status()
    .then(
      () => "OK",
      (error: unknown) => (error as { code: string }).code,
    );
}

test("a run's token is valid until the end of the run is recorded", async () => {
  const { session, token } = await fixture.client.openSession({ body: { key: "runs", ...allowed } });
  const path = join(fixture.home, "token");
  const { run } = await fixture.as(token).exec({
    body: {
      ...shellCommand(`printf %s "$HOLDFAST_TOKEN" > ${path}; sleep 60`),
      background: true,
      graceMs: 0,
    },
  });
  await waitFor(
    "it has written its token",
    async () => (await readFile(path, "utf8").catch(() => "")) !== "",
  );
  const ofRun = await readFile(path, "utf8");
  expect(ofRun).not.toBe(token);
  expect(await codeOf(ofRun)).toBe("OK");
  await fixture.client.kill({ params: run });
  await waitForRunEnd(fixture.client, run.runId);
  expect(await codeOf(ofRun)).toBe("UNAUTHORIZED");
  expect(await codeOf(token)).toBe("OK");
  await fixture.client.closeSession({ params: { id: session.id } });
});

test("tokens of many short runs do not accumulate", async () => {
  const { session, token } = await fixture.client.openSession({ body: { key: "many", ...allowed } });
  const client = fixture.as(token);
  for (let at = 0; at < 10; at++)
    await Promise.all(Array.from({ length: 10 }, () => client.exec({ body: { argv: ["true"] } })));
  await client.exec({ body: { argv: ["true"] } });
  await using store = await openSqliteStore({ path: join(fixture.home, "store.sqlite") });
  // All but the session's own, and those of the last runs.
  expect(await store.deleteEndedTokens(Date.now())).toBeLessThan(15);
  await fixture.client.closeSession({ params: { id: session.id } });
});

test("a token ends after its time, and a rotation ends the session's other tokens", async () => {
  const { session, token: short } = await fixture.client.openSession({
    body: { key: "rotated", tokenTtlMs: 1_000 },
  });
  expect(await codeOf(short)).toBe("OK");
  const { token: first } = await fixture.client.openSession({ body: { key: "rotated" } });
  const params = { id: session.id };
  const { token: second } = await fixture.client.rotateToken({ params, body: { graceMs: 60_000 } });
  expect([await codeOf(first), await codeOf(second)]).toEqual(["OK", "OK"]);
  const { token: third } = await fixture.client.rotateToken({ params: { id: "rotated" }, body: {} });
  expect([await codeOf(first), await codeOf(second), await codeOf(third)]).toEqual([
    "UNAUTHORIZED",
    "UNAUTHORIZED",
    "OK",
  ]);
  await waitFor("its time is over", async () => (await codeOf(short)) === "UNAUTHORIZED");
  await fixture.client.closeSession({ params });
  expect(await errorOf(fixture.client.rotateToken({ params, body: {} }))).toMatchObject({
    code: "SESSION_CLOSED",
  });
});

test("streams and viewers end with the token they were opened with", async () => {
  const { session, token } = await fixture.client.openSession({
    body: { key: "streams", ...allowed },
  });
  const { run } = await fixture.as(token).exec({
    body: { argv: ["sleep", "60"], background: true, graceMs: 0 },
  });
  const { socketPath } = fixture;
  const headers = { authorization: `Bearer ${token}` };
  const asking = get({ socketPath, path: "/v1/events?follow=1", headers, agent: false });
  onTestFinished(() => void asking.destroy());
  const [events] = (await once(asking, "response")) as [IncomingMessage];
  const viewer = new WebSocket(`ws+unix://${socketPath}:/v1/runs/${run.runId}/attach`, { headers });
  await once(viewer, "message");
  const ended = once(events.resume(), "end");
  const closed = once(viewer, "close");
  await fixture.client.rotateToken({ params: { id: session.id }, body: {} });
  expect((await closed)[0]).toBe(1008);
  // An event that the follower would receive.
  await fixture.client.kill({ params: run });
  await ended;
  await fixture.client.closeSession({ params: { id: session.id } });
});

test("the token of a run that ended without a gateway is invalid in the next gateway", async () => {
  const home = await temporaryHomeWithBystander();
  const before = await startGatewayProcess(home);
  const { token } = await before.client.openSession({ body: { key: "s", ...allowed } });
  const path = join(home, "token");
  const client = createClient({ socketPath: gatewaySocketPath(home), token });
  const { run } = await client.exec({
    body: {
      ...shellCommand(`printf %s "$HOLDFAST_TOKEN" > ${path}; read _`),
      stdin: "pipe",
      background: true,
    },
  });
  await waitFor(
    "it has written its token",
    async () => (await readFile(path, "utf8").catch(() => "")) !== "",
  );
  const ofRun = createClient({ socketPath: gatewaySocketPath(home), token: await readFile(path, "utf8") });
  expect((await ofRun.getRun({ params: run })).runId).toBe(run.runId);
  const { root } = await before.client.getRun({ params: run });
  killGateway(before.pid);
  await waitUntilStopped(home);
  killGateway(root?.pid ?? expect.fail("it has no process"));
  const exitFile = join(home, "instances", run.ownerInstanceId, "runs", run.runId, "exit.json");
  await waitFor("the anchor has recorded the end", () => existsSync(exitFile));
  const after = await startGatewayProcess(home);
  await waitForRunEnd(after.client, run.runId);
  expect(await errorOf(ofRun.getRun({ params: run }))).toMatchObject({ code: "UNAUTHORIZED" });
});
