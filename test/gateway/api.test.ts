import { readFile } from "node:fs/promises";
import { request } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../src/api/client.js";
import { contract } from "../../src/api/contract.js";
import { openGateway } from "../../src/gateway/gateway.js";
import { gatewaySocketPath } from "../../src/home/state-directory.js";
import { readOperatorToken } from "../../src/sessions/tokens.js";
import { scaled } from "../support/scale.js";
import { realSupervisor, temporaryHome } from "../support/supervisor/real-supervisor.js";
import { gatewayForFile, errorOf } from "../support/gateway/real-gateway.js";
import { waitFor } from "../support/wait-for.js";

const fixture = gatewayForFile();

test("the status has the identity and the home of the gateway", async () => {
  const status = await fixture.client.status();
  expect(status).toMatchObject({
    instanceId: fixture.gateway.instanceId,
    home: fixture.home,
    pid: process.pid,
    runs: 0,
  });
});

test("every answer has the shape that the contract promises", async () => {
  const { run } = await fixture.client.exec({ body: { argv: ["true"] } });
  const asked = {
    status: await fixture.client.status(),
    listRuns: await fixture.client.listRuns({ query: { all: "1" } }),
    getRun: await fixture.client.getRun({ params: run }),
    poll: await fixture.client.poll({ params: run }),
    log: await fixture.client.log({ params: run }),
    events: await fixture.client.events(),
    kill: await fixture.client.kill({ params: run }),
    listSessions: await fixture.client.listSessions(),
    listApprovals: await fixture.client.listApprovals(),
    health: await fixture.client.health(),
    listGateways: await fixture.client.listGateways(),
  };
  for (const [verb, answer] of Object.entries(asked)) {
    const { success, data } = contract[verb as keyof typeof asked].response.safeParse(answer);
    expect({ verb, success }).toEqual({ verb, success: true });
    expect(data).toEqual(answer);
  }
});

test("OpenAPI names every route, with its parameters", async () => {
  const { status, text } = await fixture.raw("GET", "/openapi.json");
  expect(status).toBe(200);
  const { paths } = JSON.parse(text) as {
    paths: Record<string, Record<string, { operationId: string; parameters: { name: string }[] }>>;
  };
  for (const [verb, { method, path }] of Object.entries(contract)) {
    const operation = paths[path]?.[method.toLowerCase()];
    expect(operation?.operationId).toBe(verb);
    for (const [, name] of path.matchAll(/\{(\w+)\}/g))
      expect(operation?.parameters.map((each) => each.name)).toContain(name);
  }
  const operations = Object.values(paths).flatMap((path) => Object.values(path));
  expect(operations).toHaveLength(Object.keys(contract).length);
});

test("the gateway serves docs/openapi.json", async () => {
  const { text } = await fixture.raw("GET", "/openapi.json");
  expect(JSON.parse(text)).toEqual(JSON.parse(await readFile("docs/openapi.json", "utf8")));
});

test("events can be replayed from any number on, page by page", async () => {
  const { run } = await fixture.client.exec({ body: { argv: ["true"] } });
  const query = { run: run.runId };
  const whole = await fixture.client.events({ query });
  expect(whole.events.map(({ type }) => type)).toEqual(expect.arrayContaining(["spawn", "exit"]));
  const paged = [];
  for (let after = 0; ;) {
    const page = await fixture.client.events({ query: { ...query, after, limit: 1 } });
    if (page.events.length === 0) break;
    paged.push(...page.events);
    ({ after } = page);
  }
  expect(paged).toEqual(whole.events);
  expect(await fixture.client.events({ query })).toEqual(whole);
});

test("events can be followed, from the past into the future, also those of other supervisors", async () => {
  const { run } = await fixture.client.exec({ body: { argv: ["true"] } });
  let text = "";
  const following = request({
    socketPath: fixture.socketPath,
    path: "/v1/events?follow=1",
    headers: { authorization: `Bearer ${fixture.token}` },
  });
  onTestFinished(() => void following.destroy());
  following.on("error", () => undefined);
  following.on("response", (response) => response.on("data", (part: Buffer) => (text += part.toString())));
  following.end();
  const has = (runId: string) => () =>
    text
      .split("\n")
      .filter((line) => line !== "")
      .some((line) => line.includes(runId) && line.includes('"exit"'));
  await waitFor("the past is there", has(run.runId));
  const other = await realSupervisor({ home: fixture.home });
  const later = await other.spawn({ io: "pipe", argv: ["true"] });
  await later.wait();
  await waitFor("the future came", has(later.runId));
  const lines = text.trimEnd().split("\n");
  const seqs = lines.map((line) => (JSON.parse(line) as { seq: number }).seq);
  expect(seqs).toEqual([...new Set(seqs)].toSorted((a, b) => a - b));
});

test.for([
  ["leave", { left: 2, ended: 0, terminated: 0, callers: 0 }],
  ["drain", { left: 1, ended: 1, terminated: 0, callers: 0 }],
  ["terminate", { left: 0, ended: 0, terminated: 2, callers: 0 }],
] as const)("a gateway that is stopped with policy %s reports the result", async ([runs, done]) => {
  const home = await temporaryHome();
  const gateway = await openGateway({ home, onEvent: () => undefined });
  const token = (await readOperatorToken(home)) ?? "";
  const client = createClient({ socketPath: gatewaySocketPath(home), token });
  // It must still run when the stop is requested.
  const seconds = runs === "drain" ? scaled(1_000) / 1_000 : 60;
  const task = { argv: ["sleep", String(seconds)], background: true, graceMs: 0 };
  await client.exec({ body: task });
  await client.exec({ body: { argv: ["sleep", "60"], kind: "service", background: true, graceMs: 0 } });
  expect(await client.stop({ body: { runs, waitMs: scaled(10_000) } })).toEqual(done);
  await gateway.stopRequested;
  await gateway.stop();
  expect((await errorOf(client.status())).code).toBe("GATEWAY_UNREACHABLE");
  const next = await openGateway({ home, onEvent: () => undefined });
  await next.ready;
  expect((await client.listRuns()).runs).toHaveLength(done.left);
  await next.stop({ runs: "terminate", waitMs: 0 });
});
