import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { followNdjson, type GatewayClient } from "../../../src/api/client.js";
import { deferred } from "../../../src/async/deferred.js";
import { defaults } from "../../../src/defaults.js";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import {
  type ClusterGateway,
  GatewayCluster,
  PEER_LISTEN_CONFIG,
} from "../../support/gateway/gateway-cluster.js";
import { startHttpReceiver, webhookConfig } from "../../support/http-receiver.js";
import { repetitions, soak } from "../../support/scale.js";
import { whyNoPooler } from "../../support/store/postgres-pooler.js";
import { whyNoPostgres } from "../../support/store/postgres-server.js";
import { findProcessesOfRun } from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

const TASKS = repetitions(16, 10_000);
const KILLS = repetitions(1, 100);
const origin = { channel: "user" } as const;
const cwd = process.cwd();

function configFor(url: string): string {
  const place = mkdtempSync(join(tmpdir(), "hf-secret-"));
  onTestFinished(() => rmSync(place, { recursive: true }));
  return `${PEER_LISTEN_CONFIG}\n${webhookConfig(place, "user", url)}`;
}

/** Tasks that each begin at one and end at another, some at a time. */
async function finishMany(
  count: number,
  pairs: readonly (readonly [GatewayClient, GatewayClient])[],
): Promise<readonly string[]> {
  const ids: string[] = [];
  const lane = async ([one, other]: readonly [GatewayClient, GatewayClient]): Promise<void> => {
    while (ids.length < count) {
      const place = ids.push("") - 1;
      const { task } = await one.createTask({ body: { label: `task ${place}`, origin } });
      ids[place] = task.taskId;
      const params = { id: task.taskId };
      await other.finishTask({ params, body: { status: "succeeded", summary: `${place}` } });
    }
  };
  await Promise.all([...pairs, ...pairs].map(lane));
  return ids;
}

async function allTold(client: GatewayClient, withinMs = 20_000): Promise<void> {
  const pending = async (): Promise<number> =>
    (await client.listTasks({ query: { delivery: "pending" } })).tasks.length;
  await expect.poll(pending, { timeout: withinMs, interval: 50, message: "still to be told" }).toBe(0);
}

async function told({ client }: ClusterGateway, id: string) {
  let answer = await client.getTask({ params: { id } });
  await waitFor(`${id} is told`, async () => {
    answer = await client.getTask({ params: { id } });
    return answer.task.delivery === "delivered";
  });
  return answer.task;
}

/** A task that is cancelled through one gateway while the other starts it does not continue, in any order. */
async function cancelledWhileStarting(here: ClusterGateway, there: ClusterGateway): Promise<void> {
  const supervisor = { here: here.gateway.supervisor, there: there.gateway.supervisor };
  const body = { argv: ["/bin/sh", "-c", "sleep 1000"], background: true, origin, graceMs: 300 };
  const cancel = (runId: string) => here.client.cancelTask({ params: { id: runId } });
  const endOf = async (runId: string) => {
    const { exit } = await there.client.getRun({ params: { runId } });
    return exit === null ? null : [exit.reason, exit.actor];
  };
  const ended = async (runId: string): Promise<void> => {
    await waitFor("its run has ended", async () => (await endOf(runId)) !== null);
    expect(await endOf(runId)).toEqual(["manual-cancel", "operator"]);
    expect(await findProcessesOfRun(runId)).toEqual([]);
    expect(await told(here, runId)).toMatchObject({ status: "cancelled" });
  };

  // It is cancelled when it is on record and its run is not; then it begins.
  const first = "run_000000000001";
  const spawn = supervisor.there.spawn.bind(supervisor.there);
  vi.spyOn(supervisor.there, "spawn").mockImplementationOnce(async (...asked) => {
    expect(await cancel(first)).toMatchObject({ outcome: "cancelled" });
    return spawn(...asked);
  });
  await there.client.exec({ body: { ...body, runId: first } });
  await ended(first);

  // The canceller finds no run. The run starts before the cancel is recorded.
  const second = "run_000000000002";
  const [mayBegin, isOnRecord] = [deferred<void>(), deferred<void>()];
  vi.spyOn(supervisor.there, "spawn").mockImplementationOnce(async (...asked) => {
    isOnRecord.resolve();
    await mayBegin.promise;
    return spawn(...asked);
  });
  const begun = there.client.exec({ body: { ...body, runId: second } });
  await isOnRecord.promise;
  const getRun = supervisor.here.getRun.bind(supervisor.here);
  const seeing = vi.spyOn(supervisor.here, "getRun").mockImplementation(async (runId) => {
    const found = await getRun(runId);
    if (runId !== second || found !== null) return found;
    seeing.mockRestore();
    mayBegin.resolve();
    await begun;
    await waitFor("its task says that it runs", async () => {
      const { task } = await there.client.getTask({ params: { id: second } });
      return task.status === "running";
    });
    return null;
  });
  expect(await cancel(second)).toMatchObject({ outcome: "cancelled" });
  await ended(second);
}

describe.skipIf(whyNoPostgres !== null)(
  "tasks of two gateways on one PostgreSQL",
  { timeout: 900_000 },
  () => {
    test("each end is notified once; tasks of one gateway are seen, followed and cancelled through the other, also while they start", async () => {
      await using cluster = await GatewayCluster.open();
      const { url, received } = await startHttpReceiver();
      const config = configFor(url);
      const here = await cluster.startGateway(config);
      const there = await cluster.startGateway(config);

      const ids = await finishMany(TASKS, [
        [here.client, here.client],
        [here.client, there.client],
        [there.client, here.client],
        [there.client, there.client],
      ]);
      await allTold(here.client);
      const got = received.map(({ headers }) => String(headers["webhook-id"]));
      expect(got.toSorted()).toEqual(ids.map((id) => `task-terminal:${id}`).toSorted());

      const { run } = await there.client.exec({
        body: { argv: ["/bin/sh", "-c", "echo from there; sleep 1000"], background: true, origin },
      });
      const types: string[] = [];
      const following = (async () => {
        const path = `/v1/tasks/${run.runId}/events?follow=1`;
        for await (const { type } of followNdjson<{ readonly type: string }>(here, path)) types.push(type);
      })();
      await waitFor("it says something", () => types.includes("progress"));
      expect(await here.client.cancelTask({ params: { id: run.runId } })).toMatchObject({
        outcome: "cancelled",
        survivors: [],
      });
      expect(await told(here, run.runId)).toMatchObject({ status: "cancelled", progress: "from there" });
      await following;
      expect(types).toEqual(["created", "started", "progress", "ended"]);

      const { session } = await there.client.acpSpawn({
        body: { argv: shellAgent(), cwd, mode: "run", prompt: "sleep 1000", background: true, origin },
      });
      const { outcome, task } = await here.client.cancelTask({ params: { id: session.sessionId } });
      expect([outcome, task.status]).toEqual(["cancelled", "cancelled"]);
      expect(await findProcessesOfRun(session.runId ?? "")).toEqual([]);
      await told(there, task.taskId);
      expect(received).toHaveLength(TASKS + 2);

      await cancelledWhileStarting(here, there);
      expect(received).toHaveLength(TASKS + 4);
    });

    const ways = [
      { way: "through PgBouncer", open: () => GatewayCluster.throughPooler(), whyNot: whyNoPooler },
      { way: "directly", open: () => GatewayCluster.open(), whyNot: null },
    ];
    // Ordinarily through a pooler, which does the same and more.
    test.for(
      ways.filter(({ whyNot }, at) => soak || at === (whyNoPooler === null ? 0 : 1) || whyNot !== null),
    )(
      "$way, one is killed while both are sending: only what it was sending is repeated, under its id, and says so",
      async ({ open, whyNot }, { skip }) => {
        if (whyNot !== null) skip(whyNot);
        await using cluster = await open();
        const held: ServerResponse[] = [];
        let holding = 0;
        const { url, received } = await startHttpReceiver((_, response) => {
          if (held.length < holding) held.push(response);
          else response.end("ok");
        });
        const config = configFor(url);
        const file = join(await cluster.newHome(), "config.toml");
        writeFileSync(file, config);
        vi.stubEnv("HOLDFAST_CONFIG", file);
        const here = await cluster.startGateway(config);
        let there = await cluster.spawnGateway();
        const ids: string[] = [];
        for (let kill = 0; kill < KILLS; kill++) {
          const before = received.length;
          // More than one of them sends at once: some of it is the other's.
          holding = defaults.deliveriesAtOnce + 4;
          ids.push(
            ...(await finishMany(3 * holding, [
              [here.client, there.client],
              [there.client, here.client],
            ])),
          );
          await waitFor("both are sending", () => held.length === holding);
          await there.kill();
          holding = 0;
          for (const response of held.splice(0)) response.end("ok");
          there = await cluster.spawnGateway(there.home);
          await allTold(here.client);
          const got = received.slice(before).map(({ headers }) => String(headers["webhook-id"]));
          const again = got.filter((id, index) => got.indexOf(id) < index);
          // At least what was held beyond what the other can send, at most what one can.
          expect(again.length).toBeGreaterThanOrEqual(4);
          expect(again.length).toBeLessThanOrEqual(defaults.deliveriesAtOnce);
          expect(new Set(again).size, "each of them once more").toBe(again.length);
        }
        const all = received.map(({ headers }) => String(headers["webhook-id"]));
        expect([...new Set(all)].toSorted()).toEqual(ids.map((id) => `task-terminal:${id}`).toSorted());
        for (const [index, { body }] of received.entries()) {
          const { data } = JSON.parse(body) as { readonly data: { readonly repeat?: true } };
          if (all.indexOf(all[index] ?? "") < index) expect(data.repeat).toBe(true);
        }
      },
    );

    test("runs continue and every end is notified when the primary is killed during sends and the stand-by is promoted", async () => {
      const { fleet: cluster, replicated } = await GatewayCluster.replicated();
      await using _fleet = cluster;
      const { url, received } = await startHttpReceiver();
      const config = configFor(url);
      const file = join(await cluster.newHome(), "config.toml");
      writeFileSync(file, config);
      vi.stubEnv("HOLDFAST_CONFIG", file);
      const here = await cluster.startGateway(config);
      const there = await cluster.spawnGateway();
      const gate = join(await cluster.newHome(), "open");
      const argv = ["/bin/sh", "-c", `until [ -e ${gate} ]; do sleep 0.05; done; exit 3`];
      const runs: string[] = [];
      for (const { client } of [here, there])
        for (let count = 0; count < 2; count += 1)
          runs.push((await client.exec({ body: { argv, background: true, origin } })).run.runId);
      const pairs = [
        [here.client, there.client],
        [there.client, here.client],
      ] as const;
      await finishMany(TASKS, pairs);
      // A gateway that is sending now cannot record the delivery.
      await replicated.failOver();
      const brief = { argv: ["/bin/true"], background: true, origin };
      for (const { client } of [here, there])
        await waitFor("it can start runs again", async () => {
          const started = await client.exec({ body: brief }).catch(() => null);
          if (started !== null) runs.push(started.run.runId);
          return started !== null;
        });
      await finishMany(TASKS, pairs);
      writeFileSync(gate, "");
      for (const runId of runs)
        await waitFor(`${runId} has ended on record`, async () => {
          const run = await here.client.getRun({ params: { runId } }).catch(() => null);
          return run?.exit?.reason === "exit";
        });
      // A claim whose answer was lost with the primary is free again when its lease expires.
      await allTold(here.client, defaults.deliveryLeaseMs + 2 * defaults.deliveryPollMs);
      const tasks = await cluster.database.query("select task_id, status, delivery from holdfast.tasks");
      expect(tasks.length).toBeGreaterThanOrEqual(2 * TASKS + runs.length);
      expect(tasks.filter(({ delivery }) => delivery !== "delivered")).toEqual([]);
      const all = received.map(({ headers }) => String(headers["webhook-id"]));
      const ends = tasks.map(({ task_id }) => `task-terminal:${String(task_id)}`);
      expect([...new Set(all)].toSorted()).toEqual(ends.toSorted());
      for (const [index, { body }] of received.entries()) {
        const { data } = JSON.parse(body) as { readonly data: { readonly repeat?: true } };
        if (all.indexOf(all[index] ?? "") < index) expect(data.repeat).toBe(true);
      }
    });
  },
);
