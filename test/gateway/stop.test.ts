import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { openGateway, type GatewayNews } from "../../src/gateway/gateway.js";
import { Rounds } from "../../src/gateway/rounds.js";
import { createClient } from "../../src/gateway/client.js";
import { gatewaySocket } from "../../src/gateway/server/listen.js";
import { readOperatorToken } from "../../src/gateway/server/requester.js";
import { removeHome } from "../remove-home.js";
import { refusal, sh, until } from "./real-gateway.js";

test("a gateway can be stopped before its first round is over", async () => {
  const home = mkdtempSync(join(tmpdir(), "holdfast-gateway-"));
  onTestFinished(() => removeHome(home));
  const news: GatewayNews["type"][] = [];
  const gateway = await openGateway({ home, onNews: ({ type }) => news.push(type) });
  const stopped = gateway.stop();
  await Promise.all([stopped, gateway.ready]);
  expect(news).toEqual(["up", "down"]);
});

test("no round begins after the end, and the end waits for the one under way", async () => {
  const rounds = new Rounds(() => expect.fail("no round failed"));
  let finish = (): void => undefined;
  let over = false;
  const first = rounds.begin("waiting", 1, () => new Promise((resolve) => (finish = resolve)));
  const ended = rounds.end().then(() => (over = true));
  await rounds.begin("too late", 1, async () => expect.fail("it was begun"));
  expect(over).toBe(false);
  finish();
  await Promise.all([first, ended]);
  expect(over).toBe(true);
});

test("one that stops is not ready, and sends who comes to the next", async () => {
  const home = mkdtempSync(join(tmpdir(), "hf-"));
  onTestFinished(() => removeHome(home));
  const news: GatewayNews[] = [];
  const gateway = await openGateway({ home, onNews: (each) => news.push(each) });
  await gateway.ready;
  const socketPath = gatewaySocket(home);
  const token = (await readOperatorToken(home)) ?? "";
  const client = createClient({ socketPath, token });
  const body = { ...sh("sleep 7004"), foreground: { bufferBytes: 1024 } };
  const { runId } = (await client.exec({ body })).run;
  const attach = (): WebSocket =>
    new WebSocket(`ws+unix://${socketPath}:/v1/runs/${runId}/attach?as=caller`, {
      headers: { authorization: `Bearer ${token}` },
    });
  // It does not say goodbye.
  const silent = attach();
  await once(silent, "message");
  silent.pause();
  const stopped = gateway.stop({ runs: "leave", waitMs: 0 });
  await until("it says so", async () => !(await client.status()).ready);
  expect(await refusal(client.exec({ body }))).toMatchObject({ code: "SUPERVISOR_CLOSED" });
  const [, response] = (await once(
    attach().on("error", () => {}),
    "unexpected-response",
  )) as [unknown, IncomingMessage];
  expect(JSON.parse(await text(response))).toMatchObject({ error: { code: "SUPERVISOR_CLOSED" } });
  await stopped;
  silent.terminate();
  expect(news.filter(({ type }) => type === "problem")).toEqual([]);
  const next = await openGateway({ home, onNews: () => {} });
  await next.ready;
  await next.stop({ runs: "terminate", waitMs: 0 });
});
