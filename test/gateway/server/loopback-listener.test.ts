import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { contract } from "../../../src/api/contract.js";
import { parseConfig } from "../../../src/config/schema.js";
import { defaults } from "../../../src/defaults.js";
import { createClient } from "../../../src/api/client.js";
import { openGateway } from "../../../src/gateway/gateway.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import { temporaryHome } from "../../support/supervisor/real-supervisor.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const listening = (address: string) => parseConfig(`[gateway]\nlisten = "${address}"`, "c.toml");

/** Short, so that the test does not wait half a minute; long enough for a request on a busy machine. */
const REQUEST_MS = 1_500;
const fixture = gatewayForFile({ config: listening("127.0.0.1:0"), requestMs: REQUEST_MS });

async function port(): Promise<number> {
  const { listen } = await fixture.client.status();
  const [, digits = ""] = /^127\.0\.0\.1:(\d+)$/.exec(listen ?? "") ?? [];
  expect(Number(digits)).toBeGreaterThan(0);
  return Number(digits);
}

async function alive(): Promise<void> {
  expect(await fixture.client.exec({ body: { argv: ["true"] } })).toMatchObject({ failure: null });
  expect(fixture.problems).toEqual([]);
}

type Raw = Socket & { heard(): string };

/** As bytes: no client of ours would say such things. */
function open(to: number | string, text: string, host = "127.0.0.1"): Raw {
  const socket = connect(typeof to === "string" ? { path: to } : { host, port: to }) as Raw;
  let heard = "";
  socket.on("data", (part: Buffer) => (heard += part.toString()));
  socket.on("error", () => undefined);
  socket.heard = () => heard;
  if (text !== "") socket.write(text);
  onTestFinished(() => void socket.destroy());
  return socket;
}

interface Said {
  readonly method?: string;
  readonly path?: string;
  readonly host?: string;
  readonly origin?: string;
  readonly token?: string | null;
  readonly more?: string;
  readonly body?: string;
}

async function ask(
  to: number,
  said: Said,
): Promise<{ readonly status: number; readonly code: string | null }> {
  const {
    method = "GET",
    path = "/v1/gateway",
    host = `127.0.0.1:${to}`,
    origin,
    more = "",
    body = "",
  } = said;
  const token = said.token === undefined ? fixture.token : said.token;
  const lines = [
    `${method} ${path} HTTP/1.1`,
    `host: ${host}`,
    ...(origin === undefined ? [] : [`origin: ${origin}`]),
    ...(token === null ? [] : [`authorization: Bearer ${token}`]),
    ...(body === "" ? [] : [`content-length: ${Buffer.byteLength(body)}`]),
    `${more}connection: ${more === "" ? "close" : "upgrade"}`,
  ];
  const socket = open(to, `${lines.join("\r\n")}\r\n\r\n${body}`);
  await waitFor("it is answered", () => /\r\n\r\n[^]*\}/.test(socket.heard()));
  const [, status = ""] = /^HTTP\/1\.1 (\d+)/.exec(socket.heard()) ?? [];
  const answer = JSON.parse(socket.heard().slice(socket.heard().indexOf("\r\n\r\n"))) as {
    error?: { code: string };
  };
  return { status: Number(status), code: answer.error?.code ?? null };
}

const foreign = { status: 403, code: "FOREIGN_ORIGIN" };
const upgrade =
  "upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n";

test("the loopback port serves the same routes and tokens under every local name", async () => {
  const to = await port();
  for (const host of [`127.0.0.1:${to}`, `localhost:${to}`, `LOCALHOST:${to}`, `[::1]:${to}`])
    expect(await ask(to, { host, origin: `http://${host}` })).toEqual({ status: 200, code: null });
  expect(await ask(to, { token: null })).toEqual({ status: 401, code: "UNAUTHORIZED" });
  expect(await ask(to, { token: "hfo_wrong" })).toEqual({ status: 401, code: "UNAUTHORIZED" });
  const ran = await ask(to, { method: "POST", path: "/v1/exec", body: '{"argv":["true"]}' });
  expect(ran).toEqual({ status: 200, code: null });
});

test("a Host with a foreign name or another port is refused before the token is checked", async () => {
  const to = await port();
  for (const host of [
    "",
    "evil.example",
    `evil.example:${to}`,
    `127.0.0.1.evil.example:${to}`,
    `localhost.:${to}`,
    `localhost:${to}@evil.example`,
    "127.0.0.1",
    `127.0.0.1:${to + 1}`,
    `127.0.0.2:${to}`,
    `0.0.0.0:${to}`,
  ])
    for (const token of [fixture.token, null])
      expect([host, await ask(to, { host, token })]).toEqual([host, foreign]);
});

test("the origin of another page is refused on every route, with any token", async () => {
  const to = await port();
  for (const origin of [
    "null",
    "http://evil.example",
    `http://evil.example:${to}`,
    `https://127.0.0.1:${to}`,
    `http://127.0.0.1:${to}.evil.example`,
    `http://127.0.0.1:${to + 1}`,
    "http://127.0.0.1",
    `file://127.0.0.1:${to}`,
  ])
    expect([origin, await ask(to, { origin })]).toEqual([origin, foreign]);
  for (const { method, path } of Object.values(contract)) {
    const filled = path.replaceAll(/\{\w+\}/g, "run_000000000000");
    expect([path, await ask(to, { method, path: filled, origin: "http://evil.example" })]).toEqual([
      path,
      foreign,
    ]);
  }
});

test("a live view is refused to another page and opened for our own", async () => {
  const to = await port();
  const { run } = await fixture.client.exec({
    body: { argv: ["sleep", "60"], background: true, graceMs: 0 },
  });
  const path = `/v1/runs/${run.runId}/attach`;
  expect(await ask(to, { path, origin: "http://evil.example", more: upgrade })).toEqual(foreign);
  expect(await ask(to, { path, host: `evil.example:${to}`, more: upgrade })).toEqual(foreign);
  expect(await ask(to, { path, token: null, more: upgrade })).toEqual({ status: 401, code: "UNAUTHORIZED" });
  const viewer = new WebSocket(`ws://127.0.0.1:${to}${path}`, {
    origin: `http://127.0.0.1:${to}`,
    headers: { authorization: `Bearer ${fixture.token}` },
  });
  const said = await new Promise<string>((resolve, reject) => {
    viewer.once("message", (data: Buffer) => resolve(data.toString()));
    viewer.once("error", reject);
  });
  viewer.terminate();
  expect(JSON.parse(said)).toMatchObject({ type: "attached", runId: run.runId });
  expect(await fixture.client.kill({ params: run })).toMatchObject({ outcome: "gone" });
});

test("a request with two Host headers or an absolute URL is refused, on both listeners and for a live view", async () => {
  const to = await port();
  const answered = async (socket: Raw): Promise<string> => {
    await waitFor("it is answered", () => socket.heard().includes("BAD_INPUT"));
    return socket.heard().slice(0, "HTTP/1.1 400".length);
  };
  const own = `host: 127.0.0.1:${to}\r\n`;
  const token = `authorization: Bearer ${fixture.token}\r\n`;
  for (const text of [
    `GET /v1/gateway HTTP/1.1\r\n${own}${token}Host: evil.example\r\n\r\n`,
    `GET /v1/gateway HTTP/1.1\r\n${own}${own}${token}\r\n`,
    `GET http://evil.example/v1/gateway HTTP/1.1\r\n${own}${token}\r\n`,
    `GET /v1/runs/run_000000000000/attach HTTP/1.1\r\n${own}${own}${token}connection: upgrade\r\n${upgrade}\r\n`,
  ]) {
    expect(await answered(open(to, text))).toBe("HTTP/1.1 400");
    expect(await answered(open(fixture.socketPath, text))).toBe("HTTP/1.1 400");
  }
  await alive();
});

test("malformed and too large requests are answered and affect no others", async () => {
  const to = await port();
  expect(await ask(to, { method: "POST", path: "/v1/exec", body: "{" })).toEqual({
    status: 400,
    code: "BAD_INPUT",
  });
  const body = JSON.stringify({ argv: ["true", "x".repeat(defaults.requestBytes)] });
  expect(await ask(to, { method: "POST", path: "/v1/exec", body })).toEqual({
    status: 413,
    code: "TOO_LARGE",
  });
  for (const [text, status] of [
    ["hello\r\n\r\n", 400],
    ["GET / HTTP/1.1\r\n\r\n", 400],
    [`GET / HTTP/1.1\r\nhost: x\r\nx: ${"y".repeat(20_000)}\r\n\r\n`, 431],
  ] as const) {
    const socket = open(to, text);
    await waitFor("it is answered", () => socket.heard().startsWith(`HTTP/1.1 ${status}`));
  }
  await alive();
});

test("a slow or silent connection is closed", async () => {
  const to = await port();
  const head = `POST /v1/exec HTTP/1.1\r\nhost: 127.0.0.1:${to}\r\nauthorization: Bearer ${fixture.token}\r\n`;
  const slow = ["", "GET /v1/gateway HTTP/1.1\r\nx:", `${head}content-length: 100\r\n\r\n{`].map((text) =>
    open(to, text),
  );
  // A byte now and then does not help.
  const dripping = slow[1];
  const drip = setInterval(() => dripping?.write("y"), 100);
  onTestFinished(() => clearInterval(drip));
  await alive();
  await waitFor("they are let go", () => slow.every((socket) => socket.closed || socket.readableEnded));
});

test("connections beyond the limit are closed, the others cost little, and the socket answers", async () => {
  const to = await port();
  const before = process.memoryUsage().rss;
  const sockets = Array.from({ length: defaults.connections + 300 }, () => open(to, "GET / HTTP/1.1\r\nx:"));
  await waitFor("all have knocked", () =>
    sockets.every(({ connecting, destroyed }) => !connecting || destroyed),
  );
  await waitFor("the rest is turned away", () => sockets.filter(({ closed }) => closed).length >= 300);
  await alive();
  expect(process.memoryUsage().rss - before).toBeLessThan(256 * 1024 * 1024);
  for (const socket of sockets) socket.destroy();
  await waitFor("there is room again", async () => {
    const answer = await ask(to, {}).catch(() => null);
    return answer?.status === 200;
  });
});

test("IPv6 is served; a port in use does not prevent the gateway from starting", async (context) => {
  const news: string[] = [];
  const start = async (address: string) => {
    const home = await temporaryHome();
    const onNews = (each: { type: string; message?: string; cause?: string }): void =>
      void news.push(`${each.type} ${each.message ?? ""} ${each.cause ?? ""}`);
    const gateway = await openGateway({ home, config: listening(address), onEvent: onNews });
    onTestFinished(() => gateway.stop());
    const token = (await readOperatorToken(home)) ?? "";
    const { listen } = await createClient({ socketPath: gatewaySocketPath(home), token }).status();
    return { token, listen: listen ?? "" };
  };
  expect((await start(`127.0.0.1:${await port()}`)).listen).toBe("");
  expect(news.filter((line) => line.startsWith("problem"))).toEqual([
    expect.stringContaining("the gateway answers on its socket only") as string,
  ]);
  const six = await new Promise<boolean>((resolve) => {
    const probe = connect({ host: "::1", port: 1 });
    probe.once("error", (error: NodeJS.ErrnoException) => resolve(error.code === "ECONNREFUSED"));
    probe.once("connect", () => resolve(true));
  });
  if (!six) context.skip("there is no IPv6 here");
  const { token, listen } = await start("[::1]:0");
  const [, digits = ""] = /^\[::1\]:(\d+)$/.exec(listen) ?? [];
  const text = `GET /v1/gateway HTTP/1.1\r\nhost: ${listen}\r\nauthorization: Bearer ${token}\r\n\r\n`;
  const socket = open(Number(digits), text, "::1");
  await waitFor("it is answered", () => socket.heard().startsWith("HTTP/1.1 200"));
});
