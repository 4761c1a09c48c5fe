import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { followLines } from "../../../src/gateway/follow-lines.js";
import { deferred } from "../../../src/supervisor/deferred.js";
import { shellAgent } from "../../acp/controlled.js";
import { receiver } from "../../channels/receiver.js";
import { whyNoPostgres } from "../../store/postgres/server.js";
import { processesOf } from "../../supervisor/real-supervisor.js";
import { until } from "../real-gateway.js";
import { Fleet, REACHABLE, type Member } from "./fleet.js";

const TASKS = process.env["HOLDFAST_SOAK"] === "1" ? 10_000 : 60;
const origin = { channel: "user" } as const;
const cwd = process.cwd();

function configFor(url: string): string {
  const place = mkdtempSync(join(tmpdir(), "hf-secret-"));
  onTestFinished(() => rmSync(place, { recursive: true }));
  const secret = join(place, "secret");
  writeFileSync(secret, `whsec_${Buffer.alloc(32, 7).toString("base64")}`, { mode: 0o600 });
  return `${REACHABLE}
[channels.user]
kind = "webhook"
url = "${url}"
secrets = [{ file = "${secret}" }]
allow-http = true
allow-networks = ["127.0.0.0/8"]
`;
}

async function told({ client }: Member, id: string) {
  let answer = await client.getTask({ params: { id } });
  await until(`${id} is told`, async () => {
    answer = await client.getTask({ params: { id } });
    return answer.task.delivery === "delivered";
  });
  return answer.task;
}

describe.skipIf(whyNoPostgres !== null)(
  "tasks of two gateways on one PostgreSQL",
  { timeout: 900_000 },
  () => {
    test("each end is received once; what one does is seen, followed and cancelled through the other", async () => {
      await using fleet = await Fleet.open();
      const { url, received } = await receiver();
      const config = configFor(url);
      const here = await fleet.join(config);
      const there = await fleet.join(config);

      const ids: string[] = [];
      const lane = async (one: Member, other: Member): Promise<void> => {
        while (ids.length < TASKS) {
          const place = ids.push("") - 1;
          const { task } = await one.client.createTask({ body: { label: `task ${place}`, origin } });
          ids[place] = task.taskId;
          const params = { id: task.taskId };
          await other.client.finishTask({ params, body: { status: "succeeded", summary: `${place}` } });
        }
      };
      await Promise.all([here, there, here, there].flatMap((one) => [lane(one, here), lane(one, there)]));
      await until("all are told", async () => {
        const { tasks } = await here.client.listTasks({ query: { delivery: "pending" } });
        return tasks.length === 0;
      });
      const got = received.map(({ headers }) => String(headers["webhook-id"]));
      expect(got.toSorted()).toEqual(ids.map((id) => `task-terminal:${id}`).toSorted());

      const { run } = await there.client.exec({
        body: { argv: ["/bin/sh", "-c", "echo from there; sleep 1000"], background: true, origin },
      });
      const types: string[] = [];
      const following = (async () => {
        const path = `/v1/tasks/${run.runId}/events?follow=1`;
        for await (const { type } of followLines<{ readonly type: string }>(here, path)) types.push(type);
      })();
      await until("it says something", () => types.includes("progress"));
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
      expect(await processesOf(session.runId ?? "")).toEqual([]);
      await told(there, task.taskId);
      expect(received).toHaveLength(TASKS + 2);
    });

    test("what is cancelled through one while the other begins it does not go on, whoever is first", async () => {
      await using fleet = await Fleet.open();
      const { url, received } = await receiver();
      const config = configFor(url);
      const here = await fleet.join(config);
      const there = await fleet.join(config);
      const supervisor = { here: here.gateway.supervisor, there: there.gateway.supervisor };
      const body = { argv: ["/bin/sh", "-c", "sleep 1000"], background: true, origin, graceMs: 300 };
      const cancel = (runId: string) => here.client.cancelTask({ params: { id: runId } });
      const endOf = async (runId: string) => {
        const { exit } = await there.client.getRun({ params: { runId } });
        return exit === null ? null : [exit.reason, exit.actor];
      };
      const ended = async (runId: string): Promise<void> => {
        await until("its run has ended", async () => (await endOf(runId)) !== null);
        expect(await endOf(runId)).toEqual(["manual-cancel", "operator"]);
        expect(await processesOf(runId)).toEqual([]);
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

      // Whoever cancels it has seen no run; before that is noted it begins, and nothing says that it was cancelled.
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
        await until("its task says that it runs", async () => {
          const { task } = await there.client.getTask({ params: { id: second } });
          return task.status === "running";
        });
        return null;
      });
      expect(await cancel(second)).toMatchObject({ outcome: "cancelled" });
      await ended(second);
      expect(received).toHaveLength(2);
    });
  },
);
