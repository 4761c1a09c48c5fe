import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/api/client.js";
import { defaults } from "../../../src/defaults.js";
import { openGateway } from "../../../src/gateway/gateway.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";
import { scaled } from "../../support/scale.js";
import { temporaryHome } from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayForFile();

async function alive(): Promise<void> {
  expect(await fixture.client.exec({ body: { argv: ["true"] } })).toMatchObject({ failure: null });
  expect(fixture.problems).toEqual([]);
}

type Raw = Socket & { heard(): string };

function open(text: string, socketPath = fixture.socketPath): Raw {
  const socket = connect({ path: socketPath, allowHalfOpen: true } as never) as Raw;
  let heard = "";
  socket.on("data", (part: Buffer) => (heard += part.toString()));
  socket.on("error", () => undefined);
  socket.heard = () => heard;
  socket.write(text);
  onTestFinished(() => void socket.destroy());
  return socket;
}

test("a body that is too large gets an answer also without a declared length", async () => {
  const chunk = `10000\r\n${"x".repeat(0x10000)}\r\n`;
  const socket = open(
    `POST /v1/exec HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${fixture.token}\r\ntransfer-encoding: chunked\r\n\r\n`,
  );
  for (let sent = 0; sent <= defaults.requestBytes; sent += 0x10000) socket.write(chunk);
  await waitFor("it is answered", () => socket.heard().startsWith("HTTP/1.1 413"));
  await alive();
});

test("input that is not HTTP is answered with an error", async () => {
  for (const text of ["hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\u0000\u0000\u0000\r\n\r\n"]) {
    const socket = open(text);
    await waitFor("it is answered", () => socket.heard().startsWith("HTTP/1.1 400"));
  }
  const long = open(`GET / HTTP/1.1\r\nx: ${"y".repeat(20_000)}\r\n\r\n`);
  await waitFor("it is answered", () => long.heard().startsWith("HTTP/1.1 431"));
  await alive();
});

test("a request that never ends does not delay others", async () => {
  const head = `POST /v1/exec HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${fixture.token}\r\n`;
  for (let i = 0; i < 50; i++) {
    open("GET /v1/gateway HTTP/1.1\r\nx:");
    open(`${head}content-length: 100\r\n\r\n{`);
  }
  const before = performance.now();
  await alive();
  expect(performance.now() - before).toBeLessThan(scaled(5_000));
});

test("a request that breaks off in its body starts nothing and is not logged as a failure", async () => {
  const count = async () => (await fixture.client.listRuns({ query: { all: "1", limit: 1000 } })).runs.length;
  const before = await count();
  const head = `POST /v1/exec HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${fixture.token}\r\n`;
  const socket = open(`${head}content-length: 100\r\n\r\n{"argv":["true"]}`);
  await fixture.client.status();
  socket.destroy();
  await fixture.client.status();
  expect(await count()).toBe(before);
  await alive();
});

const upgrade = [
  "host: x",
  "connection: upgrade",
  "upgrade: websocket",
  "sec-websocket-version: 13",
  "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
  "",
].join("\r\n");

test("an upgrade to an unknown path, or without a token, is refused", async () => {
  for (const [path, token] of [
    ["/v1/runs/run_000000000000/attach", fixture.token],
    ["/v1/runs/run_000000000000/attach", "wrong"],
    ["/v1/runs/..%2f..%2f/attach", fixture.token],
    ["/v1/runs/%zz/attach", fixture.token],
    ["//", fixture.token],
    ["/v1/gateway", fixture.token],
  ] as const) {
    const socket = open(`GET ${path} HTTP/1.1\r\n${upgrade}authorization: Bearer ${token}\r\n\r\n`);
    await waitFor(`${path} is answered`, () => /^HTTP\/1\.1 4\d\d /.test(socket.heard()));
  }
  await alive();
});

test("hundreds of connections at once are all answered", async () => {
  const answers = await Promise.all(Array.from({ length: 600 }, () => fixture.raw("GET", "/v1/gateway")));
  expect(answers.every(({ status }) => status === 200)).toBe(true);
  await alive();
});

test("thousands of requests at once are answered or refused, and another caller is served meanwhile", async () => {
  const { token: other } = await fixture.client.openSession({ body: { key: "another" } });
  const asked = 3_000;
  const connections = 50;
  const request = `GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${fixture.token}\r\n\r\n`;
  let answered = "";
  for (let at = 0; at < connections; at++) {
    const socket = connect(fixture.socketPath);
    onTestFinished(() => void socket.destroy());
    socket.setEncoding("latin1").on("data", (text: string) => (answered += text));
    socket.write(request.repeat(asked / connections));
  }
  const statuses = (): string[] => answered.match(/(?<=HTTP\/1\.1 )\d+/g) ?? [];
  await waitFor("some are answered", () => statuses().length > 0);
  expect(await fixture.as(other).listRuns()).toMatchObject({ runs: [], next: null });
  await waitFor("all are answered", () => statuses().length === asked);
  // It depends on the machine if they come faster than is allowed.
  expect(["404", "429"]).toEqual(expect.arrayContaining([...new Set(statuses())]));
  await waitFor("it may ask again", async () => (await fixture.raw("GET", "/v1/gateway")).status === 200);
});

test("clients that never disconnect do not prevent a gateway from stopping", async () => {
  const home = await temporaryHome();
  const gateway = await openGateway({ home, onEvent: () => undefined });
  const token = (await readOperatorToken(home)) ?? "";
  const path = gatewaySocketPath(home);
  const { run } = await createClient({ socketPath: path, token }).exec({
    body: { argv: ["sleep", "60"], background: true, graceMs: 0 },
  });
  const head = `${upgrade}authorization: Bearer ${token}\r\n\r\n`;
  const refused = open(`GET /v1/nothing HTTP/1.1\r\n${head}`, path);
  const viewer = open(`GET /v1/runs/${run.runId}/attach HTTP/1.1\r\n${head}`, path);
  open("GET /v1/gateway HTTP/1.1\r\nx:", path);
  open(`GET /v1/events?follow=1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n\r\n`, path);
  await waitFor("they are answered", () => refused.heard() !== "" && viewer.heard().includes("attached"));
  const before = performance.now();
  await gateway.stop({ runs: "terminate", waitMs: 0 });
  expect(performance.now() - before).toBeLessThan(scaled(5_000));
});
