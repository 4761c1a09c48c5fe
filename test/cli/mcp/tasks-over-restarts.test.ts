import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { expect, test } from "vitest";
import { waitFor } from "../../support/wait-for.js";
import { ServeFixture, type WireClient } from "./serve-fixture.js";

/** Starts a command in the background, and returns the task that the call became. */
async function startTask(client: WireClient, command: string): Promise<string> {
  const call = { name: "exec", arguments: { command, background: true } };
  const { result } = await client.ask("tools/call", call);
  expect(result).toMatchObject({ resultType: "task", status: "working" });
  return result?.["taskId"] as string;
}

test("a task survives SIGKILL of its MCP server and of the gateway, and the next connection gets its result", async () => {
  await using fixture = await ServeFixture.open();
  await fixture.shell(`mkfifo ${fixture.home}/go`);
  const first = fixture.connect();
  const taskId = await startTask(first, `read line < '${fixture.home}/go'; echo got $line; exit 3`);
  const { pid } = await (await fixture.operator()).status();
  await first.kill();
  process.kill(pid, "SIGKILL");

  const next = fixture.connect();
  expect((await next.ask("tasks/get", { taskId })).result).toMatchObject({ taskId, status: "working" });
  const subscription = next.send("subscriptions/listen", { notifications: { taskIds: [taskId] } });
  await next.heard("notifications/subscriptions/acknowledged", {});
  // The subscription continues with the next gateway, too.
  expect(await fixture.holdfast("gateway", "restart")).toMatchObject({ code: 0 });
  await writeFile(join(fixture.home, "go"), "through\n");
  await next.heard("notifications/tasks", { taskId, status: "completed" });
  expect((await next.ask("tasks/get", { taskId })).result).toMatchObject({
    status: "completed",
    result: { isError: true, structuredContent: { run: { exitCode: 3 }, stdout: { text: "got through\n" } } },
  });
  next.cancel(subscription);
  await next.close();
});

test("a subscription does not start a gateway that was stopped, and continues with the one that a call starts", async () => {
  await using fixture = await ServeFixture.open();
  const client = fixture.connect();
  const taskId = await startTask(client, `until [ -e ${fixture.home}/end ]; do sleep 0.1; done`);
  client.send("subscriptions/listen", { notifications: { taskIds: [taskId] } });
  await client.heard("notifications/subscriptions/acknowledged", {});
  await fixture.holdfast("gateway", "stop", "--runs", "leave");
  const { listRuns } = await fixture.operator();
  // It has tried again twice by then; that nothing happens is no event.
  await setTimeout(2_500);
  await expect(listRuns()).rejects.toMatchObject({ code: "GATEWAY_UNREACHABLE" });
  expect((await client.ask("tasks/get", { taskId })).result).toMatchObject({ status: "working" });
  await client.ask("tools/call", { name: "exec", arguments: { command: `touch ${fixture.home}/end` } });
  await client.heard("notifications/tasks", { taskId, status: "completed" });
  await client.close();
});

test("subscriptions over stdio beyond the limit are refused, and cancelling makes room", async () => {
  await using fixture = await ServeFixture.open();
  const client = fixture.connect();
  const taskId = await startTask(client, "sleep 300");
  const ids: number[] = [];
  for (let at = 0; at < 40; at++)
    ids.push(client.send("subscriptions/listen", { notifications: { taskIds: [taskId] } }));
  const refused = () => client.received.filter(({ error }) => error?.message.includes("open subscriptions"));
  const acknowledged = () =>
    client.received.filter(({ method }) => method === "notifications/subscriptions/acknowledged");
  await waitFor("each has an answer", () => refused().length + acknowledged().length === ids.length);
  expect(refused()).toHaveLength(8);
  for (const id of ids) client.cancel(id);
  client.send("subscriptions/listen", { notifications: { taskIds: [taskId] } });
  await waitFor("there is room again", () => acknowledged().length === 33);
  await client.ask("tasks/cancel", { taskId });
  await client.heard("notifications/tasks", { taskId, status: "cancelled" });
  await client.close();
});

test("a client of 2025-06-18 initializes with its revision, and calls a tool", async () => {
  await using fixture = await ServeFixture.open();
  const client = fixture.connect();
  const clientInfo = { name: "old", version: "1" };
  const begin = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
  const { result } = await client.ask("initialize", begin, null);
  expect(result).toMatchObject({ protocolVersion: "2025-06-18", serverInfo: { name: "holdfast" } });
  const call = { name: "exec", arguments: { command: "echo hello" } };
  expect((await client.ask("tools/call", call, null)).result).toMatchObject({
    structuredContent: { stdout: { text: "hello\n" } },
  });
  await client.close();
});
