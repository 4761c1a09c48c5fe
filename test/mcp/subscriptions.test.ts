import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { deferred } from "../../src/async/deferred.js";
import { parseConfig } from "../../src/config/schema.js";
import { defaults } from "../../src/defaults.js";
import { gatewaySocketPath } from "../../src/home/state-directory.js";
import { followResource, readState } from "../../src/mcp/resources/follow-resource.js";
import { taskUri } from "../../src/mcp/resources/resources.js";
import { connectSession } from "../../src/mcp/session/connect-session.js";
import { gatewayForFile } from "../support/gateway/real-gateway.js";
import { connectOverHttp, newMcpClient, callTool, postRequest } from "../support/mcp/mcp-clients.js";
import { waitFor } from "../support/wait-for.js";

const fixture = gatewayForFile({ config: parseConfig('[gateway]\nlisten = "127.0.0.1:0"', "c.toml") });

let sessions = 0;
async function newToken(): Promise<string> {
  sessions += 1;
  const body = { key: `subscriptions-${sessions}`, execRules: [{ effect: "allow" as const }] };
  return (await fixture.client.openSession({ body })).token;
}

/** Starts a command in the background for a session. */
async function start(token: string, command: string): Promise<{ runId: string; taskId: string }> {
  const client = fixture.as(token);
  const body = { argv: ["/bin/sh", "-c", command], cwd: fixture.home, background: true };
  const { run } = await client.exec({ body });
  const { task } = await client.getTask({ params: { id: run.runId } });
  return { runId: run.runId, taskId: task.taskId };
}

interface Notification {
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
}

/** A subscription over HTTP, until the test has finished. */
async function listen(token: string, notifications: object): Promise<Response> {
  const { listen: address } = await fixture.client.status();
  const over = new AbortController();
  onTestFinished(() => over.abort());
  const { signal } = over;
  return postRequest(address ?? "", token, "subscriptions/listen", { notifications }, { signal });
}

/** Its notifications so far; it reads on. */
function readNotifications({ headers, body }: Response): readonly Notification[] {
  expect(headers.get("content-type")).toBe("text/event-stream");
  const seen: Notification[] = [];
  void (async () => {
    let text = "";
    for await (const part of body ?? []) {
      text += Buffer.from(part).toString();
      const frames = text.split("\n\n");
      text = frames.pop() ?? "";
      for (const frame of frames) {
        const data = frame.split("\n").find((line) => line.startsWith("data: "));
        if (data !== undefined) seen.push(JSON.parse(data.slice(6)) as Notification);
      }
    }
  })().catch(() => undefined);
  return seen;
}

test("a client that initializes over HTTP gets changes of a subscribed resource on its stream", async () => {
  const token = await newToken();
  const { runId } = await start(token, "mkfifo go; read line < go; echo more; sleep 300");
  const { listen: address } = await fixture.client.status();
  const client = await connectOverHttp(newMcpClient("2025-11-25"), address ?? "", token);
  const updated: string[] = [];
  client.setNotificationHandler(
    "notifications/resources/updated",
    ({ params }) => void updated.push(params.uri),
  );
  const uri = `holdfast://runs/${runId}/log`;
  await client.subscribeResource({ uri });
  const go = join(fixture.home, "go");
  await waitFor("it waits", () => existsSync(go));
  await writeFile(go, "x\n");
  await waitFor("the change is reported", () => updated.includes(uri));
  await client.unsubscribeResource({ uri });
  await client.close();
});

test("a client that initializes over HTTP gets a change from before it read its stream", async () => {
  const token = await newToken();
  const { runId } = await start(token, "mkfifo late; read line < late; echo more; sleep 300");
  const { listen: address } = await fixture.client.status();
  const reads = deferred<void>();
  const slowToRead: typeof fetch = async (input, init) => {
    if (init?.method === "GET") await reads.promise;
    return fetch(input, init);
  };
  const client = await connectOverHttp(newMcpClient("2025-11-25"), address ?? "", token, {
    fetch: slowToRead,
  });
  const updated: string[] = [];
  client.setNotificationHandler(
    "notifications/resources/updated",
    ({ params }) => void updated.push(params.uri),
  );
  const uri = `holdfast://runs/${runId}/log`;
  await client.subscribeResource({ uri });
  const others = readNotifications(await listen(token, { resourceSubscriptions: [uri] }));
  await waitFor("another client is subscribed", () => others.length > 0);
  await waitFor("it waits", () => existsSync(join(fixture.home, "late")));
  await writeFile(join(fixture.home, "late"), "x\n");
  await waitFor("another client is told", () => others.some(({ params }) => params["uri"] === uri));
  reads.resolve(undefined);
  await waitFor("the change is reported", () => updated.includes(uri));
  await client.close();
});

test("a change after the state that a subscription begins with is reported, also if it came before the first look", async () => {
  const token = await newToken();
  const { runId, taskId } = await start(token, "mkfifo early; read line < early; echo more; sleep 300");
  const connection = connectSession(
    { address: { socketPath: gatewaySocketPath(fixture.home), token }, cwd: null, environment: null },
    { isStopping: () => false },
  );
  const over = new AbortController();
  onTestFinished(() => over.abort());
  const uris = [`holdfast://runs/${runId}/log`, taskUri(taskId)];
  const states = await Promise.all(uris.map((uri) => readState(connection, uri, over.signal)));
  await waitFor("it waits", () => existsSync(join(fixture.home, "early")));
  await writeFile(join(fixture.home, "early"), "x\n");
  const client = fixture.as(token);
  await client.poll({ params: { runId }, query: { waitMs: 30_000 } });
  await client.kill({ params: { runId } });
  const changed = new Set<string>();
  await Promise.all(
    uris.map((uri, at) =>
      followResource(connection, uri, states[at] ?? null, () => void changed.add(uri), over.signal),
    ),
  );
  expect(changed).toEqual(new Set(uris));
});

test("a subscription over HTTP reports the end of a task with its result, and new output of a run", async () => {
  const token = await newToken();
  const { taskId, runId } = await start(token, "sleep 0.3; echo more; sleep 1");
  const uri = `holdfast://runs/${runId}/log`;
  const seen = readNotifications(await listen(token, { taskIds: [taskId], resourceSubscriptions: [uri] }));
  const has = (method: string, status?: string): boolean =>
    seen.some(
      ({ method: each, params }) => each === method && (status === undefined || params["status"] === status),
    );
  await waitFor("the end is told", () => has("notifications/tasks", "completed"));
  await waitFor("the output is told", () => has("notifications/resources/updated"));
  expect(seen[0]).toMatchObject({
    method: "notifications/subscriptions/acknowledged",
    params: { notifications: { taskIds: [taskId], resourceSubscriptions: [uri] } },
  });
  expect(
    seen.every(
      ({ params }) =>
        (params["_meta"] as Record<string, unknown>)["io.modelcontextprotocol/subscriptionId"] === 7,
    ),
  ).toBe(true);
});

/** As many characters as an answer has, of three bytes each, on both streams. */
const PRINT = "yes €€€€€€€€€€€€€€€€€€€ | head -n 2000; yes €€€€€€€€€€€€€€€€€€€ | head -n 2000 >&2";

test("a client that did not read for a while gets the end of every task", async () => {
  const token = await newToken();
  // More than the buffers of the connection hold.
  const started = await Promise.all(
    Array.from({ length: defaults.mcpFollowed / 2 }, () => start(token, PRINT)),
  );
  const taskIds = started.map(({ taskId }) => taskId);
  const client = fixture.as(token);
  const open = async () => (await client.listTasks({ query: { open: "1" } })).tasks.length;
  await waitFor("all have ended", async () => (await open()) === 0);
  const response = await listen(token, { taskIds });
  for (const taskId of taskIds) await client.getTask({ params: { id: taskId } });
  const seen = readNotifications(response);
  const told = (): unknown[] => seen.flatMap(({ params }) => params["taskId"] ?? []);
  await waitFor("every end is told", () => told().length === taskIds.length);
  expect(new Set(told())).toEqual(new Set(taskIds));
});

test("subscriptions beyond the limit are refused, leave room for calls, and make room when they end", async () => {
  const token = await newToken();
  const runs = await Promise.all(
    Array.from({ length: Math.ceil(defaults.mcpFollowed / 2) }, () => start(token, "sleep 300")),
  );
  const uris = runs.flatMap(({ runId }) => [
    `holdfast://runs/${runId}/log`,
    `holdfast://runs/${runId}/screen`,
  ]);
  const first = await listen(token, { resourceSubscriptions: uris });
  expect(first.status).toBe(200);
  const one = { taskIds: runs.slice(0, 1).map(({ taskId }) => taskId) };
  const refused = await listen(token, one);
  expect(refused.status).toBe(429);
  expect(await refused.text()).toContain(`of ${defaults.mcpFollowed} subscribed resources and tasks`);

  const { listen: address } = await fixture.client.status();
  const client = await connectOverHttp(newMcpClient("2025-11-25"), address ?? "", token);
  await expect(client.subscribeResource({ uri: uris[0] ?? "" })).rejects.toThrow("subscribed resources");
  expect((await callTool(client, "process", { action: "list" })).isError).toBe(false);
  await first.body?.cancel();
  await waitFor("there is room again", async () => (await listen(token, one)).status === 200);
  await client.subscribeResource({ uri: uris[0] ?? "" });
  await client.close();
});
