import type { OutgoingHttpHeaders } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { createClient } from "../../../src/api/client.js";
import { parseConfig } from "../../../src/config/schema.js";
import { openGateway } from "../../../src/gateway/gateway.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import { startRawReceiver, startHttpReceiver, webhookConfig } from "../../support/http-receiver.js";
import { temporaryHome } from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

/** Only the receiver that hangs has a short limit: on a busy machine, the answer of another one may take that long. */
const HANGING_LIMIT_MS = 500;

/** Behaviours of a receiver, and the result of the first attempt to deliver to it. */
const receivers = {
  hangs: { url: () => startRawReceiver(() => undefined), status: "pending", error: /within 500 ms/ },
  fails: { url: () => answering(500), status: "pending", error: /answered 500/ },
  redirects: {
    url: () => answering(302, { location: "http://127.0.0.1:1/" }),
    status: "pending",
    error: /answered with a redirect/,
  },
  "is-given-up": { url: () => answering(410), status: "failed", error: /answered 410/ },
  "closes-mid-body": {
    url: () =>
      startRawReceiver((socket) => {
        socket.write("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf");
        socket.destroy();
      }),
    status: "pending",
    error: /./,
  },
  "is-absent": { url: async () => "http://127.0.0.1:1", status: "pending", error: /connection refused/ },
} as const;

async function answering(status: number, headers: OutgoingHttpHeaders = {}): Promise<string> {
  return (await startHttpReceiver((_, response) => response.writeHead(status, headers).end())).url;
}

test("an attempt to deliver has a time limit whatever the receiver does, and its result is in the task's record", async () => {
  const home = await temporaryHome();
  const tables = [];
  for (const [name, { url }] of Object.entries(receivers))
    tables.push(
      webhookConfig(home, name, await url()),
      `timeout-ms = ${name === "hangs" ? HANGING_LIMIT_MS : 20_000}\n`,
    );
  const problems: unknown[] = [];
  const gateway = await openGateway({
    home,
    config: parseConfig(tables.join(""), ""),
    onEvent: (news) => news.type === "problem" && problems.push(news),
  });
  onTestFinished(() => gateway.stop({ runs: "terminate", waitMs: 0 }));
  await gateway.ready;
  const client = createClient({
    socketPath: gatewaySocketPath(home),
    token: (await readOperatorToken(home)) ?? "",
  });
  await Promise.all(
    Object.entries(receivers).map(async ([channel, { status, error }]) => {
      const { task } = await client.createTask({ body: { label: channel, origin: { channel } } });
      const params = { id: task.taskId };
      await client.finishTask({ params, body: { status: "succeeded" } });
      const message = async () => (await client.getTask({ params })).messages[0];
      await waitFor(`${channel} was tried`, async () => ((await message())?.error ?? null) !== null);
      expect(await message()).toMatchObject({ status, attempts: 1, error: expect.stringMatching(error) });
      expect((await client.getTask({ params })).task).toMatchObject({
        status: "succeeded",
        delivery: status,
      });
    }),
  );
  // Only failed notifications need an operator; the others are retried.
  const { findings } = await client.auditTasks();
  const { tasks } = await client.listTasks({ query: { delivery: "failed" } });
  expect(findings.map(({ code, taskId }) => [code, taskId])).toEqual(
    tasks.map(({ taskId }) => ["delivery_failed", taskId]),
  );
  expect(tasks.map(({ label }) => label)).toEqual(["is-given-up"]);
  expect(problems).toEqual([]);
});
