import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test, vi } from "vitest";
import { WebSocket } from "ws";
import { createClient, type GatewayClient, type GatewayError } from "../../src/api/client.js";
import { deferred } from "../../src/async/deferred.js";
import { type Gateway, type GatewayEvent, openGateway } from "../../src/gateway/gateway.js";
import { PeriodicJobs } from "../../src/gateway/periodic-jobs.js";
import { gatewaySocketPath } from "../../src/home/state-directory.js";
import { readOperatorToken } from "../../src/sessions/tokens.js";
import { errorOf, shellCommand } from "../support/gateway/real-gateway.js";
import { plantBystander } from "../support/bystander.js";
import { findProcessesOfRun, temporaryHome } from "../support/supervisor/real-supervisor.js";
import { removeStateDirectory } from "../support/temporary-directory.js";
import { waitFor } from "../support/wait-for.js";

async function opened(): Promise<{ readonly gateway: Gateway; readonly client: GatewayClient }> {
  plantBystander("sleep", ["7200"]);
  const home = await temporaryHome();
  const gateway = await openGateway({ home, onEvent: () => undefined });
  const token = (await readOperatorToken(home)) ?? "";
  return { gateway, client: createClient({ socketPath: gatewaySocketPath(home), token }) };
}

const silent = { argv: ["sleep", "7201"], background: true, graceMs: 0 };

test("a gateway can be stopped before its first reconciliation is done", async () => {
  const home = mkdtempSync(join(tmpdir(), "holdfast-gateway-"));
  onTestFinished(() => removeStateDirectory(home));
  const news: GatewayEvent["type"][] = [];
  const gateway = await openGateway({ home, onEvent: ({ type }) => news.push(type) });
  const stopped = gateway.stop();
  await Promise.all([stopped, gateway.ready]);
  expect(news).toEqual(["up", "down"]);
});

test("no job starts after the stop, and the stop waits for the running job", async () => {
  const rounds = new PeriodicJobs(() => expect.fail("no round failed"));
  let finish = (): void => undefined;
  let over = false;
  const first = rounds.schedule("waiting", 1, () => new Promise((resolve) => (finish = resolve)));
  const ended = rounds.stop().then(() => (over = true));
  await rounds.schedule("too late", 1, async () => expect.fail("it was begun"));
  expect(over).toBe(false);
  finish();
  await Promise.all([first, ended]);
  expect(over).toBe(true);
});

test("a stopping gateway is not ready, and refuses new work", async () => {
  const home = mkdtempSync(join(tmpdir(), "hf-"));
  onTestFinished(() => removeStateDirectory(home));
  const news: GatewayEvent[] = [];
  const gateway = await openGateway({ home, onEvent: (each) => news.push(each) });
  await gateway.ready;
  const socketPath = gatewaySocketPath(home);
  const token = (await readOperatorToken(home)) ?? "";
  const client = createClient({ socketPath, token });
  const body = { ...shellCommand("sleep 7004"), foreground: { bufferBytes: 1024 } };
  const { runId } = (await client.exec({ body })).run;
  const attach = (): WebSocket =>
    new WebSocket(`ws+unix://${socketPath}:/v1/runs/${runId}/attach?as=caller`, {
      headers: { authorization: `Bearer ${token}` },
    });
  // It does not say goodbye.
  const mute = attach();
  await once(mute, "message");
  mute.pause();
  const stopped = gateway.stop({ runs: "leave", waitMs: 0 });
  await waitFor("it says so", async () => !(await client.status()).ready);
  expect(await errorOf(client.exec({ body }))).toMatchObject({ code: "SUPERVISOR_CLOSED" });
  const [, response] = (await once(
    attach().on("error", () => {}),
    "unexpected-response",
  )) as [unknown, IncomingMessage];
  expect(JSON.parse(await text(response))).toMatchObject({ error: { code: "SUPERVISOR_CLOSED" } });
  await stopped;
  mute.terminate();
  expect(news.filter(({ type }) => type === "problem")).toEqual([]);
  const next = await openGateway({ home, onEvent: () => {} });
  await next.ready;
  await next.stop({ runs: "terminate", waitMs: 0 });
});

test("a draining gateway starts nothing, and a later terminate is final", async () => {
  const { gateway, client } = await opened();
  const { run } = await client.exec({ body: silent });
  const drained = client.stop({ body: { runs: "drain", waitMs: 3_600_000 } });
  const start = async (): Promise<string> =>
    client.exec({ body: { argv: ["true"] } }).then(
      () => "started",
      (error: unknown) => (error as GatewayError).code,
    );
  await waitFor("nothing is started", async () => (await start()) === "SUPERVISOR_CLOSED");
  const done = { left: 0, ended: 0, terminated: 1, callers: 0 };
  const terminated = client.stop({ body: { runs: "terminate" } });
  await waitFor("it is being stopped", () => gateway.supervisor.run(run.runId)?.state !== "running");
  const left = client.stop({ body: { runs: "leave" } });
  expect(await Promise.all([drained, terminated, left.catch(() => done)])).toEqual([done, done, done]);
  await gateway.stopRequested;
  await gateway.stop();
  expect(await findProcessesOfRun(run.runId)).toEqual([]);
});

test("a run that starts during a terminating shutdown does not outlive the gateway", async () => {
  const { gateway, client } = await opened();
  const spawn = gateway.supervisor.spawn.bind(gateway.supervisor);
  const begun = deferred<void>();
  const settled = deferred<void>();
  vi.spyOn(gateway.supervisor, "spawn").mockImplementationOnce(async (...words) => {
    begun.resolve();
    await settled.promise;
    return spawn(...words);
  });
  const starting = client.exec({ body: silent });
  await begun.promise;
  expect(await client.stop({ body: { runs: "terminate" } })).toMatchObject({ left: 0, terminated: 0 });
  await gateway.stopRequested;
  settled.resolve();
  const { run } = await starting;
  expect(await findProcessesOfRun(run.runId)).not.toEqual([]);
  await gateway.stop();
  expect(await findProcessesOfRun(run.runId)).toEqual([]);
});

test("after a failed stop, the gateway accepts runs and another stop", async () => {
  const { gateway, client } = await opened();
  await client.exec({ body: silent });
  vi.spyOn(gateway.supervisor, "stop").mockRejectedValueOnce(new Error("not today"));
  expect((await errorOf(client.stop({ body: { runs: "terminate" } }))).code).toBe("INTERNAL");
  await client.exec({ body: silent });
  expect(await client.stop({ body: { runs: "terminate" } })).toMatchObject({ terminated: 2 });
  await gateway.stopRequested;
  await gateway.stop();
});
