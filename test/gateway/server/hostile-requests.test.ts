import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { contract } from "../../../src/api/contract.js";
import { defaults } from "../../../src/defaults.js";
import { createClient } from "../../../src/api/client.js";
import { openGateway } from "../../../src/gateway/gateway.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/requester.js";
import { temporaryHome } from "../../support/supervisor/real-supervisor.js";
import { gatewayForFile, errorOf } from "../../support/gateway/real-gateway.js";
import { scaled } from "../../support/machine-speed.js";
import { waitFor } from "../../support/wait-for.js";

const gatewayFixture = gatewayForFile();

async function alive(): Promise<void> {
  expect(await gatewayFixture.client.exec({ body: { argv: ["true"] } })).toMatchObject({ failure: null });
  expect(gatewayFixture.problems).toEqual([]);
}

function codeOf(text: string): string {
  const { error } = JSON.parse(text) as { error: { code: string; message: string } };
  expect(error.message).not.toBe("");
  return error.code;
}

function pathOf(path: string): string {
  return path.replace("{pid}", "4000000000").replaceAll(/\{\w+\}/g, "run_000000000000");
}

const routes = Object.entries(contract).map(([verb, route]) => ({ verb, ...route }));

test.for([
  ["no token", null],
  ["an empty one", ""],
  ["a wrong one", "hfo_wrong"],
  ["a session's that never was", "hfs_00000000000000000000000000000000000000000000"],
  ["a very long one", "x".repeat(5_000)],
] as const)("%s: every route answers the same, whether it exists or not", async ([, token]) => {
  const unknown = await gatewayFixture.raw("GET", "/v1/nothing", { token });
  expect([unknown.status, codeOf(unknown.text)]).toEqual([401, "UNAUTHORIZED"]);
  for (const { method, path } of [...routes, { method: "GET", path: "/openapi.json" }])
    expect(await gatewayFixture.raw(method, pathOf(path), { token })).toEqual(unknown);
});

test.for([
  ["GET", "/"],
  ["GET", "/v1"],
  ["GET", "/v1/nothing"],
  ["PUT", "/v1/runs"],
  ["GET", "/v1/runs/"],
  ["GET", "//"],
  ["GET", "//elsewhere/v1/runs"],
  ["GET", "http://[/v1/runs"],
  ["GET", "http://elsewhere/v1/runs"],
  ["OPTIONS", "*"],
  ["GET", "/v1/runs/%zz"],
  ["GET", "/v1/runs/x/../../gateway/nothing"],
] as const)("%s %s is not there", async ([method, path]) => {
  const { status, text } = await gatewayFixture.raw(method, path);
  expect([404, 400]).toContain(status);
  expect(["NOT_FOUND", "BAD_INPUT"]).toContain(codeOf(text));
});

test.for([
  "..%2f..%2fetc%2fpasswd",
  "%2e%2e",
  "..%5c",
  "a%00b",
  "%00",
  "a%0ab",
  "RUN_000000000000",
  "'%20or%201=1--",
  "x".repeat(5_000),
  "%F0%9F%98%80",
])("the id %s is none, on any route", async (id) => {
  for (const { method, path } of routes.filter((route) => route.path.includes("{runId}"))) {
    const { status, text } = await gatewayFixture.raw(method, path.replace("{runId}", id), {
      ...(method === "POST" ? { body: "{}" } : {}),
    });
    expect([path, [400, 404].includes(status)]).toEqual([path, true]);
    expect(["BAD_INPUT", "NOT_FOUND"]).toContain(codeOf(text));
  }
  for (const { method, path } of routes.filter((route) =>
    /sessions\/\{id\}|agents\/\{id\}/.test(route.path),
  )) {
    if (method === "DELETE") continue;
    const body = path.endsWith("/run")
      ? '{"prompt":"x"}'
      : path.endsWith("/messages")
        ? '{"text":"x"}'
        : "{}";
    const { status, text } = await gatewayFixture.raw(method, path.replace("{id}", id), {
      ...(method === "POST" ? { body } : {}),
    });
    expect([path, [400, 404].includes(status)]).toEqual([path, true]);
    expect(["BAD_INPUT", "NOT_FOUND"]).toContain(codeOf(text));
  }
  for (const path of ["/v1/sessions/", "/v1/approvals/"]) {
    const { status, text } = await gatewayFixture.raw(
      path === "/v1/sessions/" ? "DELETE" : "POST",
      `${path}${id}`,
      {
        ...(path === "/v1/sessions/" ? {} : { body: '{"verdict":"allow"}' }),
      },
    );
    expect([200, 400, 404]).toContain(status);
    if (status !== 200) expect(["BAD_INPUT", "NOT_FOUND"]).toContain(codeOf(text));
  }
});

const posts = routes.filter(({ method }) => method === "POST");

test.for([
  ["no JSON", "{"],
  ["bytes", "\u0000\u0001"],
  ["a list", "[]"],
  ["null", "null"],
  ["a number", "1"],
  ["text", '"x"'],
  ["deep nesting", "[".repeat(100_000)],
] as const)("a body that is %s is bad input on every route that has one", async ([, body]) => {
  for (const { path, verb } of posts) {
    const { status, text } = await gatewayFixture.raw("POST", pathOf(path), { body });
    expect({ verb, status, code: codeOf(text) }).toEqual({ verb, status: 400, code: "BAD_INPUT" });
  }
  await alive();
});

const wrong: unknown[] = [null, [], {}, -1, 1.5, 1e300, true, "x\0", "", "x".repeat(200_000)];
const fields: Partial<Record<keyof typeof contract, Record<string, unknown>>> = {
  stop: { runs: "leave", waitMs: 1 },
  write: { text: "x" },
  sendKeys: { keys: ["x"] },
  paste: { text: "x", submit: true },
  resize: { rows: 1, cols: 1 },
  kill: { graceMs: 1, reason: "x" },
  ready: { timeoutMs: 1, orStop: true },
  adoptRun: { keepTimeouts: true },
  openSession: {
    key: "k",
    agentId: "a",
    parentSessionKey: "p",
    interactionMode: "run",
    sandboxed: true,
    visibility: "self",
    execRules: [],
  },
  rotateToken: { tokenTtlMs: 1_000, graceMs: 1 },
  decideApproval: { verdict: "allow" },
  acknowledgeInbox: { ids: ["msg_000000000000"] },
  sendMessage: { text: "x", visibility: "all" },
  checkAgent: { environment: {}, cwd: "/" },
  testChannel: { address: "x" },
  runAgent: {
    prompt: "x",
    resume: "last",
    environment: {},
    cwd: "/",
    umask: 0,
    labels: {},
    timeoutMs: 1,
    graceMs: 1,
    limits: {},
    foreground: { bufferBytes: 1 },
    runId: "run_000000000000",
    background: true,
    yieldMs: 10,
    maxChars: 1,
    notify: "silent",
    origin: { channel: "x" },
  },
  createTask: {
    label: "x",
    text: "x",
    key: "k",
    kind: "x",
    agentId: "a",
    parent: "task_0",
    heartbeatMs: 1_000,
    queued: true,
    notify: "silent",
    origin: { channel: "x" },
  },
  taskProgress: { text: "x", queued: true },
  finishTask: { status: "succeeded", outcome: "succeeded", summary: "x", error: "x" },
  notifyTask: { policy: "silent" },
  cancelTask: { reason: "x" },
  maintainTasks: { apply: false },
  acpSpawn: {
    argv: ["true"],
    cwd: "/",
    key: "k",
    agentId: "a",
    parentSessionKey: "p",
    environment: {},
    mode: "run",
    rules: [],
    reap: "asked",
    prompt: "x",
    timeoutMs: 1_000,
    wait: true,
    background: true,
    notify: "silent",
    origin: { channel: "x" },
  },
  acpPrompt: {
    text: "x",
    timeoutMs: 1_000,
    wait: true,
    background: true,
    notify: "silent",
    origin: { channel: "x" },
  },
  acpCancel: { turnId: "t", reapTools: true },
  acpClose: { discardPersistentState: true },
  acpAnswer: { verdict: "allow" },
  exec: {
    argv: ["true"],
    shell: "sh",
    pty: true,
    environment: {},
    env: {},
    allowEnv: [],
    cwd: "/",
    umask: 0,
    labels: {},
    sessionKey: "k",
    kind: "task",
    timeoutMs: 1,
    noOutputTimeoutMs: 1,
    graceMs: 1,
    merge: true,
    stdin: "null",
    input: "",
    rows: 1,
    cols: 1,
    background: true,
    yieldMs: 10,
    maxChars: 1,
    limits: {},
    port: 1,
    readyTimeoutMs: 1,
    runId: "run_000000000000",
    foreground: { bufferBytes: 1 },
    onEscape: "fail",
    agentId: "a",
    notify: "silent",
    origin: { channel: "x" },
  },
};

test("every route with a body is in the table", () => {
  const bare = ["heartbeat", "clear", "adoptProcess", "retryTask", "dismissTask"];
  expect(new Set([...Object.keys(fields), ...bare])).toEqual(new Set(posts.map(({ verb }) => verb)));
});

test("another method than a path's own is not there, on any path", async () => {
  for (const { path } of routes) {
    const own = new Set<string>(routes.filter((route) => route.path === path).map(({ method }) => method));
    for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"].filter(
      (each) => !own.has(each),
    )) {
      const { status, text } = await gatewayFixture.raw(method, pathOf(path));
      // A name where an id would be: `/v1/runs/clear` is a run's path for other methods.
      expect([404, 400]).toContain(status);
      expect(["NOT_FOUND", "RUN_NOT_FOUND", "BAD_INPUT"]).toContain(codeOf(text));
    }
  }
  await alive();
});

test("a body that is too large is refused on every route that has one", async () => {
  const body = JSON.stringify({ text: "x".repeat(defaults.requestBytes) });
  for (const { path, verb } of posts) {
    const { status, text } = await gatewayFixture.raw("POST", pathOf(path), { body });
    expect({ verb, status, code: codeOf(text) }).toEqual({ verb, status: 413, code: "TOO_LARGE" });
  }
  await alive();
});

test("a field of the wrong type is never more than bad input, on any route", async () => {
  for (const [verb, good] of Object.entries(fields)) {
    const { path, body: shape } = contract[verb as keyof typeof contract];
    for (const field of Object.keys(good))
      for (const value of wrong) {
        const bad = { ...good, [field]: value };
        // What the contract lets through is not wrong, and would be done.
        if (shape.safeParse(bad).success) continue;
        const { status, text } = await gatewayFixture.raw("POST", pathOf(path), {
          body: JSON.stringify(bad),
        });
        expect({ verb, field, value, status, code: codeOf(text) }).toEqual({
          verb,
          field,
          value,
          status: 400,
          code: "BAD_INPUT",
        });
      }
    const unknown = await gatewayFixture.raw("POST", pathOf(path), {
      body: JSON.stringify({ ...good, unknwon: 1 }),
    });
    expect({ verb, status: unknown.status }).toEqual({ verb, status: 400 });
  }
  await alive();
});

test.for([
  "/v1/runs?limit=0",
  "/v1/runs?limit=x",
  "/v1/runs?limit=1e9",
  "/v1/runs?all=yes",
  "/v1/runs?label==",
  "/v1/runs?what=1",
  "/v1/events?after=-1",
  "/v1/events?after=x",
  "/v1/events?follow=maybe",
  "/v1/events?follow=1&after=x",
  "/v1/events?follow=1&what=1",
  "/v1/events?limit=1001",
  "/v1/sessions?limit=-1",
  "/v1/sessions/x/inbox?limit=101",
  "/v1/acp/sessions?limit=0",
  "/v1/acp/sessions/x/updates?after=-1",
  "/v1/acp/sessions/x/updates?follow=1&after=x",
  "/v1/acp/permissions?all=yes",
  "/v1/runs/run_000000000000/poll?waitMs=30001",
  "/v1/runs/run_000000000000/poll?stdout=-1",
  "/v1/runs/run_000000000000/log?stream=stdin",
  "/v1/runs/run_000000000000/log?offset=x",
  "/v1/runs/run_000000000000/log?lines=0",
])("%s is bad input", async (path) => {
  const { status, text } = await gatewayFixture.raw("GET", path);
  expect([status, codeOf(text)]).toEqual([400, "BAD_INPUT"]);
});

test("numbers beyond everything do no harm", async () => {
  const { run } = await gatewayFixture.client.exec({ body: { argv: ["echo", "x"] } });
  for (const offset of [Number.MAX_SAFE_INTEGER, 2 ** 53, 1e300]) {
    const log = await gatewayFixture.raw("GET", `/v1/runs/${run.runId}/log?offset=${offset}`);
    const poll = await gatewayFixture.raw("GET", `/v1/runs/${run.runId}/poll?stdout=${offset}`);
    const events = await gatewayFixture.raw("GET", `/v1/events?after=${offset}`);
    for (const { status } of [log, poll, events]) expect([200, 400]).toContain(status);
  }
  await alive();
});

test("a body that is too large is refused with an answer, declared or not", async () => {
  const body = JSON.stringify({ argv: ["true", "x".repeat(defaults.requestBytes)] });
  const { status, text } = await gatewayFixture.raw("POST", "/v1/exec", { body });
  expect([status, codeOf(text)]).toEqual([413, "TOO_LARGE"]);
  const chunk = `10000\r\n${"x".repeat(0x10000)}\r\n`;
  const socket = open(
    `POST /v1/exec HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${gatewayFixture.token}\r\ntransfer-encoding: chunked\r\n\r\n`,
  );
  for (let sent = 0; sent <= defaults.requestBytes; sent += 0x10000) socket.write(chunk);
  await waitFor("it is answered", () => socket.heard().startsWith("HTTP/1.1 413"));
  await alive();
});

test("arguments longer than the system takes are refused, not failed on", async () => {
  const { code } = await errorOf(
    gatewayFixture.client.exec({ body: { argv: ["true", "x".repeat(3_000_000)] } }),
  );
  expect(["BAD_INPUT", "SPAWN_FAILED"]).toContain(code);
  await alive();
});

type Raw = Socket & { heard(): string };

function open(text: string, socketPath = gatewayFixture.socketPath): Raw {
  const socket = connect({ path: socketPath, allowHalfOpen: true } as never) as Raw;
  let heard = "";
  socket.on("data", (part: Buffer) => (heard += part.toString()));
  socket.on("error", () => undefined);
  socket.heard = () => heard;
  socket.write(text);
  onTestFinished(() => void socket.destroy());
  return socket;
}

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
  const head = `POST /v1/exec HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${gatewayFixture.token}\r\n`;
  for (let i = 0; i < 50; i++) {
    open("GET /v1/gateway HTTP/1.1\r\nx:");
    open(`${head}content-length: 100\r\n\r\n{`);
  }
  const before = performance.now();
  await alive();
  expect(performance.now() - before).toBeLessThan(scaled(5_000));
});

test("a request that breaks off in its body starts nothing and is not logged as a failure", async () => {
  const count = async () =>
    (await gatewayFixture.client.listRuns({ query: { all: "1", limit: 1000 } })).runs.length;
  const before = await count();
  const head = `POST /v1/exec HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${gatewayFixture.token}\r\n`;
  const socket = open(`${head}content-length: 100\r\n\r\n{"argv":["true"]}`);
  await gatewayFixture.client.status();
  socket.destroy();
  await gatewayFixture.client.status();
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
    ["/v1/runs/run_000000000000/attach", gatewayFixture.token],
    ["/v1/runs/run_000000000000/attach", "wrong"],
    ["/v1/runs/..%2f..%2f/attach", gatewayFixture.token],
    ["/v1/runs/%zz/attach", gatewayFixture.token],
    ["//", gatewayFixture.token],
    ["/v1/gateway", gatewayFixture.token],
  ] as const) {
    const socket = open(`GET ${path} HTTP/1.1\r\n${upgrade}authorization: Bearer ${token}\r\n\r\n`);
    await waitFor(`${path} is answered`, () => /^HTTP\/1\.1 4\d\d /.test(socket.heard()));
  }
  await alive();
});

test("hundreds of connections at once are all answered", async () => {
  const answers = await Promise.all(
    Array.from({ length: 600 }, () => gatewayFixture.raw("GET", "/v1/gateway")),
  );
  expect(answers.every(({ status }) => status === 200)).toBe(true);
  await alive();
});

test("thousands of requests at once are answered or refused, and another caller is served meanwhile", async () => {
  const { token: other } = await gatewayFixture.client.openSession({ body: { key: "another" } });
  const asked = 3_000;
  const connections = 50;
  const request = `GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${gatewayFixture.token}\r\n\r\n`;
  let answered = "";
  for (let at = 0; at < connections; at++) {
    const socket = connect(gatewayFixture.socketPath);
    onTestFinished(() => void socket.destroy());
    socket.setEncoding("latin1").on("data", (text: string) => (answered += text));
    socket.write(request.repeat(asked / connections));
  }
  const statuses = (): string[] => answered.match(/(?<=HTTP\/1\.1 )\d+/g) ?? [];
  await waitFor("some are answered", () => statuses().length > 0);
  expect(await gatewayFixture.as(other).listRuns()).toMatchObject({ runs: [], next: null });
  await waitFor("all are answered", () => statuses().length === asked);
  // Whether they come faster than is allowed depends on the machine.
  expect(["404", "429"]).toEqual(expect.arrayContaining([...new Set(statuses())]));
  await waitFor(
    "it may ask again",
    async () => (await gatewayFixture.raw("GET", "/v1/gateway")).status === 200,
  );
});

test("clients that never hang up do not keep a gateway from stopping", async () => {
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
