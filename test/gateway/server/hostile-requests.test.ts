import { expect, test } from "vitest";
import { contract } from "../../../src/api/contract.js";
import { defaults } from "../../../src/defaults.js";
import { gatewayForFile, errorOf } from "../../support/gateway/real-gateway.js";

const fixture = gatewayForFile();

async function alive(): Promise<void> {
  expect(await fixture.client.exec({ body: { argv: ["true"] } })).toMatchObject({ failure: null });
  expect(fixture.problems).toEqual([]);
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
] as const)("%s: every route gives the same answer, whether it exists or not", async ([, token]) => {
  const unknown = await fixture.raw("GET", "/v1/nothing", { token });
  expect([unknown.status, codeOf(unknown.text)]).toEqual([401, "UNAUTHORIZED"]);
  for (const { method, path } of [...routes, { method: "GET", path: "/openapi.json" }])
    expect(await fixture.raw(method, pathOf(path), { token })).toEqual(unknown);
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
] as const)("%s %s is not found", async ([method, path]) => {
  const { status, text } = await fixture.raw(method, path);
  expect([404, 400]).toContain(status);
  expect(["NOT_FOUND", "BAD_INPUT"]).toContain(codeOf(text));
});

/** Not of tasks: `..` makes other routes of some of their paths. */
const NAMED = /\{runId\}|(sessions|agents|approvals)\/\{id\}/;

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
])("the id %s is not found on any route", async (id) => {
  for (const { method, path } of routes.filter(({ path: each }) => NAMED.test(each))) {
    const body = path.endsWith("/run")
      ? { prompt: "x" }
      : path.endsWith("/messages")
        ? { text: "x" }
        : path.includes("approvals")
          ? { verdict: "allow" }
          : {};
    const { status, text } = await fixture.raw(method, path.replace(/\{(runId|id)\}/, id), {
      ...(method === "POST" ? { body: JSON.stringify(body) } : {}),
    });
    // Closing is idempotent.
    if (method === "DELETE" && status === 200) continue;
    expect({ path, status: [400, 404].includes(status) }).toEqual({ path, status: true });
    expect(["BAD_INPUT", "NOT_FOUND"]).toContain(codeOf(text));
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
    const { status, text } = await fixture.raw("POST", pathOf(path), { body });
    expect({ verb, status, code: codeOf(text) }).toEqual({ verb, status: 400, code: "BAD_INPUT" });
  }
  await alive();
});

const WRONG_VALUES: unknown[] = [null, [], {}, -1, 1.5, 1e300, true, "x\0", "", "x".repeat(200_000)];
test("another method than a path's own is not found", async () => {
  for (const { path } of routes) {
    const own = new Set<string>(routes.filter((route) => route.path === path).map(({ method }) => method));
    for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"].filter(
      (each) => !own.has(each),
    )) {
      const { status, text } = await fixture.raw(method, pathOf(path));
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
    const { status, text } = await fixture.raw("POST", pathOf(path), { body });
    expect({ verb, status, code: codeOf(text) }).toEqual({ verb, status: 413, code: "TOO_LARGE" });
  }
  await alive();
});

test("a field of the wrong type, or an unknown field, is bad input on every route", async () => {
  for (const { verb, path, body: schema } of posts)
    for (const field of [...Object.keys(schema.shape), "unknown"])
      for (const value of WRONG_VALUES) {
        const body = { [field]: value };
        // A valid request would be executed.
        if (schema.safeParse(body).success) continue;
        const { status, text } = await fixture.raw("POST", pathOf(path), {
          body: JSON.stringify(body),
        });
        const answer = { verb, field, value, status, code: codeOf(text) };
        expect(answer).toEqual({ verb, field, value, status: 400, code: "BAD_INPUT" });
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
  const { status, text } = await fixture.raw("GET", path);
  expect([status, codeOf(text)]).toEqual([400, "BAD_INPUT"]);
});

test("extreme numbers do no harm", async () => {
  const { run } = await fixture.client.exec({ body: { argv: ["echo", "x"] } });
  for (const offset of [Number.MAX_SAFE_INTEGER, 2 ** 53, 1e300]) {
    const log = await fixture.raw("GET", `/v1/runs/${run.runId}/log?offset=${offset}`);
    const poll = await fixture.raw("GET", `/v1/runs/${run.runId}/poll?stdout=${offset}`);
    const events = await fixture.raw("GET", `/v1/events?after=${offset}`);
    for (const { status } of [log, poll, events]) expect([200, 400]).toContain(status);
  }
  await alive();
});

test("arguments longer than the system's limit are refused before the start", async () => {
  const { code } = await errorOf(fixture.client.exec({ body: { argv: ["true", "x".repeat(3_000_000)] } }));
  expect(["BAD_INPUT", "SPAWN_FAILED"]).toContain(code);
  await alive();
});
