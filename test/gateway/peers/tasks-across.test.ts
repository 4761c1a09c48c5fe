import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { followLines } from "../../../src/gateway/follow-lines.js";
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
  },
);
