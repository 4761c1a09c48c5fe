import { get, type IncomingMessage } from "node:http";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { defaults } from "../../../src/defaults.js";
import { gatewayForFile, errorOf } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayForFile();
const LARGEST = Object.fromEntries(
  Array.from({ length: 15 }, (_, at) => [`${at}`.padEnd(40, "k"), "v".repeat(defaults.labelValueChars)]),
);

async function opened(key: string): Promise<string> {
  const { token } = await fixture.client.openSession({
    body: { key, execRules: [{ effect: "allow" }] },
  });
  return token;
}

async function follow(token: string): Promise<IncomingMessage> {
  const { socketPath } = fixture;
  const headers = { authorization: `Bearer ${token}` };
  const asking = get({ socketPath, path: "/v1/events?follow=1", headers, agent: false });
  onTestFinished(() => void asking.destroy());
  const [response] = (await once(asking, "response")) as [IncomingMessage];
  return response.on("error", () => undefined);
}

test.each<[string, Record<string, string>]>([
  ["too many labels", Object.fromEntries(Array.from({ length: 65 }, (_, at) => [`k${at}`, ""]))],
  ["a key that is too long", { ["k".repeat(129)]: "" }],
  ["a value that is too long", { k: "v".repeat(1_025) }],
  ["labels that are too large together", { ...LARGEST, more: "v".repeat(1_000) }],
])("%s are refused by the API and by the library, and nothing is started", async (_, labels) => {
  const refused = await errorOf(fixture.client.exec({ body: { argv: ["true"], labels } }));
  expect(refused).toMatchObject({ code: "BAD_INPUT", message: expect.stringContaining("at most") as string });
  const { supervisor } = fixture.gateway;
  const spawned = supervisor.spawn({ io: "pipe", argv: ["true"] }, { labels });
  expect(await errorOf(spawned)).toMatchObject({ code: "BAD_INPUT" });
  expect((await fixture.client.listRuns({ query: { all: "1" } })).runs).toEqual([]);
});

test("a session has a limit of streams of all kinds; a stream that ends frees its place", async () => {
  const token = await opened("streams");
  const streams = [];
  for (let at = 0; at < defaults.sessionStreams; at++) streams.push(await follow(token));
  const refused = await follow(token);
  expect([refused.statusCode, refused.headers["retry-after"]]).toEqual([429, "1"]);
  expect(JSON.parse(await text(refused))).toMatchObject({ error: { code: "TOO_MANY_STREAMS" } });
  const { run } = await fixture
    .as(token)
    .exec({ body: { argv: ["sleep", "60"], background: true, graceMs: 0 } });
  const attach = (): WebSocket =>
    new WebSocket(`ws+unix://${fixture.socketPath}:/v1/runs/${run.runId}/attach`, {
      headers: { authorization: `Bearer ${token}` },
    });
  const [, answer] = (await once(
    attach().on("error", () => undefined),
    "unexpected-response",
  )) as [unknown, IncomingMessage];
  expect([answer.statusCode, answer.headers["retry-after"]]).toEqual([429, "1"]);
  expect((await follow(await opened("other streams"))).statusCode).toBe(200);
  expect((await follow(fixture.token)).statusCode).toBe(200);
  streams[0]?.destroy();
  await waitFor("there is room", async () => (await follow(token)).statusCode === 200);
  await fixture.client.kill({ params: run });
});

test("a session may have more commands in the foreground than streams", async () => {
  const token = await opened("foreground");
  const headers = { authorization: `Bearer ${token}` };
  for (let at = 0; at < defaults.sessionStreams; at++) await follow(token);
  const { run } = await fixture.as(token).exec({
    body: { argv: ["sleep", "60"], foreground: { bufferBytes: 1_024 }, graceMs: 0 },
  });
  const path = `/v1/runs/${run.runId}/attach?as=caller`;
  const caller = new WebSocket(`ws+unix://${fixture.socketPath}:${path}`, { headers });
  onTestFinished(() => caller.terminate());
  await once(caller, "message");
  await fixture.client.kill({ params: run });
});

test("runs with the largest labels are listed in pages of bounded size, and none is missing", async () => {
  const client = fixture.as(await opened("labels"));
  const started = new Set<string>();
  for (let at = 0; at < 12; at++)
    started.add((await client.exec({ body: { argv: ["true"], labels: LARGEST } })).run.runId);
  const listed: string[] = [];
  for (let cursor: string | null = null; ;) {
    const page: Awaited<ReturnType<typeof client.listRuns>> = await client.listRuns({
      query: { all: "1", limit: 5, ...(cursor === null ? {} : { cursor }) },
    });
    listed.push(...page.runs.map(({ runId }) => runId));
    cursor = page.next;
    if (cursor === null) break;
  }
  expect(new Set(listed)).toEqual(started);
  expect(listed).toHaveLength(started.size);
});
