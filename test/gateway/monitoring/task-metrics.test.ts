import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, test } from "vitest";
import { parseConfig } from "../../../src/config/schema.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";
import { scrapeMetrics } from "../../support/gateway/scrape-metrics.js";
import { waitFor } from "../../support/wait-for.js";

/** Wants no more. */
const deaf = createServer((_, response) => response.writeHead(410).end());
await new Promise<void>((resolve) => deaf.listen(0, "127.0.0.1", resolve));
afterAll(() => deaf.close());
process.env["DEAF_SECRET"] = `whsec_${Buffer.alloc(24, 1).toString("base64")}`;
const config = parseConfig(
  `[channels.deaf]
kind = "webhook"
url = "http://127.0.0.1:${(deaf.address() as AddressInfo).port}"
secrets = [{ env = "DEAF_SECRET" }]
allow-http = true
allow-networks = ["127.0.0.1"]`,
  "",
);
const fixture = gatewayForFile({ config });

test("open tasks, messages that were not delivered, ends and attempts are counted", async () => {
  const { session, token } = await fixture.client.openSession({ body: { key: "k" } });
  const client = fixture.as(token);
  const counted = async () => {
    const all = [...(await scrapeMetrics(fixture))].filter(([name]) => name.startsWith("holdfast_task"));
    return Object.fromEntries(all.filter(([, count]) => count !== 0));
  };
  expect(await counted()).toEqual({});
  const { task } = await client.createTask({ body: { label: "one" } });
  const { task: other } = await fixture.client.createTask({
    body: { label: "two", queued: true, origin: { channel: "deaf" } },
  });
  expect(await counted()).toEqual({
    'holdfast_tasks{status="running"}': 1,
    'holdfast_tasks{status="queued"}': 1,
  });
  await client.finishTask({ params: { id: task.taskId }, body: { status: "succeeded" } });
  await fixture.client.cancelTask({ params: { id: other.taskId } });
  await waitFor("both are told, or given up", async () => {
    const now = await counted();
    return (
      now['holdfast_task_messages{status="failed"}'] === 1 &&
      !('holdfast_task_messages{status="pending"}' in now)
    );
  });
  const done = {
    'holdfast_task_end_total{status="succeeded"}': 1,
    'holdfast_task_end_total{status="cancelled"}': 1,
    'holdfast_task_attempt_total{status="session_queued"}': 1,
    'holdfast_task_attempt_total{status="failed"}': 1,
    'holdfast_task_messages{status="failed"}': 1,
  };
  expect(await counted()).toEqual({ ...done, 'holdfast_task_messages{status="session_queued"}': 1 });
  const params = { id: session.id };
  const { messages } = await client.sessionInbox({ params });
  await client.acknowledgeInbox({ params, body: { ids: messages.map(({ id }) => id) } });
  expect(await counted()).toEqual(done);
  const names = [...(await scrapeMetrics(fixture)).keys()];
  expect(names).toContain('holdfast_tasks{status="running"}');
  expect(names).toContain('holdfast_task_messages{status="pending"}');
});
