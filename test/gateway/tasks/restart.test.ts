import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import type { GatewayClient } from "../../../src/api/client.js";
import type { ResponseOf } from "../../../src/api/contract.js";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import { startHttpReceiver, type ReceivedRequest, webhookConfig } from "../../support/http-receiver.js";
import { findProcessesOfRun } from "../../support/supervisor/real-supervisor.js";
import {
  startGatewayProcess,
  killGateway,
  temporaryHomeWithBystander,
} from "../../support/gateway/gateway-process.js";
import { errorOf } from "../../support/gateway/real-gateway.js";
import { repetitions } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

const ROUNDS = repetitions(2, 100);
const origin = { channel: "user" } as const;
type Task = ResponseOf<"getTask">["task"];

/** A state directory whose gateways tell a real receiver. */
async function told(): Promise<{ readonly home: string; readonly received: readonly ReceivedRequest[] }> {
  const home = await temporaryHomeWithBystander();
  const { url, received } = await startHttpReceiver();
  const config = join(home, "config.toml");
  writeFileSync(config, webhookConfig(home, "user", url));
  vi.stubEnv("HOLDFAST_CONFIG", config);
  return { home, received };
}

async function begin(client: GatewayClient, home: string, round: number): Promise<readonly string[]> {
  const script = `sleep 0.${round % 4}; echo result ${round}`;
  const asked = await Promise.allSettled([
    client.exec({ body: { argv: ["/bin/sh", "-c", script], background: true, origin } }),
    client.acpSpawn({
      body: { argv: shellAgent(), cwd: home, mode: "run", prompt: script, background: true, origin },
    }),
  ]);
  expect(asked.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled"]);
  return asked.map(() => `result ${round}`);
}

async function allEnded(client: GatewayClient): Promise<readonly Task[]> {
  let tasks: readonly Task[] = [];
  await waitFor("all have ended and were told", async () => {
    ({ tasks } = await client.listTasks({ query: { limit: 1_000 } }));
    return tasks.every(({ endedAt, delivery }) => endedAt !== null && delivery === "delivered");
  });
  return tasks;
}

test(
  "a gateway killed at any moment between the start of work and the record of its notification loses nothing and uses one id",
  { timeout: 600_000 },
  async () => {
    const { home, received } = await told();
    let { client, pid } = await startGatewayProcess(home);
    const wanted: string[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      wanted.push(...(await begin(client, home, round)));
      await sleep(Math.random() * 500);
      killGateway(pid);
      ({ client, pid } = await startGatewayProcess(home));
    }
    const tasks = await allEnded(client);
    expect(tasks.map(({ status }) => status)).toEqual(wanted.map(() => "succeeded"));
    expect(tasks.map(({ summary }) => summary ?? "").toSorted()).toEqual(wanted.toSorted());
    const ids = received.map(({ headers }) => String(headers["webhook-id"]));
    expect([...new Set(ids)].toSorted()).toEqual(
      tasks.map(({ taskId }) => `task-terminal:${taskId}`).toSorted(),
    );
    for (const { taskId } of tasks) {
      const { events, messages } = await client.getTask({ params: { id: taskId } });
      const types = events.map(({ type }) => type).filter((type) => !["progress", "linked"].includes(type));
      expect(types).toEqual(["created", "started", "ended"]);
      expect(messages).toHaveLength(1);
      // A repeat was begun by one that was killed in it, and says so.
      const about = received.filter(({ headers }) => headers["webhook-id"] === `task-terminal:${taskId}`);
      const repeats = about.map(({ body }) => (JSON.parse(body) as { data: { repeat?: true } }).data.repeat);
      expect(repeats.slice(1).every((repeat) => repeat === true)).toBe(true);
    }
  },
);

test("work that ends while no gateway runs gets its true end from the next gateway", async () => {
  const { home } = await told();
  const first = await startGatewayProcess(home);
  const go = join(home, "go");
  const asked = [];
  for (const end of ["echo fine", "echo broken >&2; exit 4"]) {
    const script = `while [ ! -e ${go} ]; do sleep 0.02; done; ${end}`;
    asked.push(await first.client.exec({ body: { argv: ["/bin/sh", "-c", script], background: true } }));
  }
  killGateway(first.pid);
  writeFileSync(go, "");
  for (const { run } of asked)
    await waitFor("its processes are gone", async () => (await findProcessesOfRun(run.runId)).length === 0);
  const { client } = await startGatewayProcess(home);
  await waitFor("both have ended", async () => {
    const { tasks } = await client.listTasks({ query: { open: "1" } });
    return tasks.length === 0;
  });
  const ends = [];
  for (const { run } of asked) ends.push((await client.getTask({ params: { id: run.runId } })).task);
  expect(ends).toMatchObject([
    { status: "succeeded", summary: "fine", error: null },
    { status: "failed", summary: "broken", error: "it exited with code 4" },
  ]);
});

test("a command with or without a notification target, whose gateway is killed while its caller waits, is one task with its true end", async () => {
  const { home, received } = await told();
  const { client, pid } = await startGatewayProcess(home);
  const go = join(home, "go");
  const asked = ([{}, { origin }] as const).map((more, at) => {
    const begun = join(home, `begun-${at}`);
    const script = `: > ${begun}; while [ ! -e ${go} ]; do sleep 0.02; done; echo fine`;
    const body = { argv: ["/bin/sh", "-c", script], yieldMs: 100_000, ...more };
    return { begun, error: errorOf(client.exec({ body })) };
  });
  const service = ["sleep", "1000"];
  await client.exec({ body: { argv: service, kind: "service", background: true } });
  for (const { begun } of asked) await waitFor("it has begun", () => existsSync(begun));
  killGateway(pid);
  for (const { error } of asked) expect(await error).toMatchObject({ code: "GATEWAY_UNREACHABLE" });
  // A second recovery creates no second task.
  const second = await startGatewayProcess(home);
  const tasksOf = async (from: GatewayClient): Promise<readonly Task[]> =>
    (await from.listTasks({ query: {} })).tasks;
  await waitFor("both have a task", async () => (await tasksOf(second.client)).length >= asked.length);
  killGateway(second.pid);
  const { client: last } = await startGatewayProcess(home);
  writeFileSync(go, "");
  const isOver = ({ endedAt, delivery }: Task): boolean => endedAt !== null && delivery !== "pending";
  const tasks = await waitFor("both have ended, and the one is told", async () => {
    const all = await tasksOf(last);
    return all.every(isOver) && all;
  });
  const ends = asked.map(({ begun }) => tasks.filter(({ label }) => label.includes(begun)));
  const end = { runtime: "exec", status: "succeeded", summary: "fine" };
  expect(ends).toMatchObject([[{ ...end, delivery: "not_applicable" }], [{ ...end, delivery: "delivered" }]]);
  expect(tasks).toHaveLength(asked.length);
  expect(received).toHaveLength(1);
});
