import { expect, test } from "vitest";
import { parseConfig } from "../../src/config/schema.js";
import { collectGarbage } from "../support/collect-garbage.js";
import { gatewayForFile, waitForRunEnd } from "../support/gateway/real-gateway.js";
import { callTool, connectOverStdio, newMcpClient, postRequest } from "../support/mcp/mcp-clients.js";
import { waitFor, withTimeout } from "../support/wait-for.js";

const fixture = gatewayForFile({ config: parseConfig('[gateway]\nlisten = "127.0.0.1:0"', "c.toml") });

interface Task {
  readonly resultType: string;
  readonly taskId: string;
  readonly status: string;
  readonly result?: { readonly isError?: boolean; readonly structuredContent: unknown };
}

let sessions = 0;
async function newToken(): Promise<string> {
  sessions += 1;
  const body = { key: `tasks-${sessions}`, execRules: [{ effect: "allow" as const }] };
  return (await fixture.client.openSession({ body })).token;
}

/** Rejects with the error of the protocol. */
async function request<Result>(
  token: string,
  method: string,
  params: Record<string, unknown>,
  tasks = true,
): Promise<Result> {
  const { listen: address } = await fixture.client.status();
  const response = await postRequest(address ?? "", token, method, params, { tasks });
  const { result, error } = (await response.json()) as { result?: Result; error?: { code: number } };
  if (result === undefined) throw Object.assign(new Error("refused"), error);
  return result;
}

const getTask = (token: string, taskId: string): Promise<Task> => request(token, "tasks/get", { taskId });

/** Starts a command that goes on, and answers with the task that the call became. */
async function startTask(token: string, command: string): Promise<string> {
  const params = { name: "exec", arguments: { command, background: true } };
  const created = await request<Task>(token, "tools/call", params);
  expect(created).toMatchObject({
    resultType: "task",
    status: "working",
    pollIntervalMs: expect.any(Number),
  });
  return created.taskId;
}

test("a call that continues is a task for a client that knows tasks; its result is the one of the call", async () => {
  const token = await newToken();
  const taskId = await startTask(token, "sleep 0.5; echo done; exit 3");
  expect(await getTask(token, taskId)).toMatchObject({ status: "working", resultType: "complete" });
  await waitFor("the task ended", async () => (await getTask(token, taskId)).status !== "working");
  expect(await getTask(token, taskId)).toMatchObject({
    status: "completed",
    result: {
      isError: true,
      structuredContent: { failure: "exit-code", run: { exitCode: 3 }, stdout: { text: "done\n" } },
    },
  });
});

test("a task is cancelled with its processes, and is not found by another session", async () => {
  const [token, stranger] = [await newToken(), await newToken()];
  const taskId = await startTask(token, "sleep 300");
  await expect(getTask(stranger, taskId)).rejects.toMatchObject({ code: -32_602 });
  await expect(request(stranger, "tasks/cancel", { taskId })).rejects.toMatchObject({ code: -32_602 });
  expect(await getTask(token, taskId)).toMatchObject({ status: "working" });
  expect(await request(token, "tasks/cancel", { taskId })).toMatchObject({ resultType: "complete" });
  await waitFor("the task is cancelled", async () => (await getTask(token, taskId)).status === "cancelled");
  const { run } = await fixture.client.getTask({ params: { id: taskId } });
  expect(run?.state).toBe("exited");
});

test("a client that does not know tasks gets the answer, and may not ask for tasks", async () => {
  const token = await newToken();
  const call = { name: "exec", arguments: { command: "sleep 100", background: true } };
  const { resultType, structuredContent } = await request<{
    readonly resultType: string;
    readonly structuredContent: { readonly taskId: string };
  }>(token, "tools/call", call, false);
  expect(resultType).toBe("complete");
  const { taskId } = structuredContent;
  await expect(request(token, "tasks/get", { taskId }, false)).rejects.toMatchObject({ code: -32_021 });
  const cancel = { name: "tasks", arguments: { action: "cancel", taskId } };
  expect(await request(token, "tools/call", cancel, false)).toMatchObject({
    structuredContent: { outcome: "cancelled" },
  });
});

test("a wait for a task is answered after waitMs, also after garbage was collected", async () => {
  const token = await newToken();
  const taskId = await startTask(token, "sleep 300");
  const wait = { name: "tasks", arguments: { action: "wait", taskId, waitMs: 1_000 } };
  const collecting = setInterval(collectGarbage, 100);
  const answered = request(token, "tools/call", wait, false).finally(() => clearInterval(collecting));
  expect(await withTimeout(15_000, "the wait is answered", answered)).toMatchObject({
    structuredContent: { task: { status: "running" } },
  });
});

test("resources are a run's log and screen and a task's record; a client over stdio is notified of changes", async () => {
  const { client } = await connectOverStdio(newMcpClient("2025-11-25"), fixture.home);
  const { data } = await callTool<{ run: { runId: string }; taskId: string }>(client, "exec", {
    ...{ command: "echo begun; read line; echo end", terminal: true, background: true },
  });
  const { runId } = data.run;
  const log = `holdfast://runs/${runId}/log`;
  const updated: string[] = [];
  client.setNotificationHandler(
    "notifications/resources/updated",
    ({ params }) => void updated.push(params.uri),
  );
  const { resources } = await client.listResources();
  expect(resources.map(({ uri }) => uri)).toEqual(
    expect.arrayContaining([log, `holdfast://runs/${runId}/screen`, `holdfast://tasks/${data.taskId}`]),
  );
  await client.subscribeResource({ uri: log });
  await client.subscribeResource({ uri: `holdfast://tasks/${data.taskId}` });
  await callTool(client, "process", { action: "submit", runId, text: "x" });
  await waitForRunEnd(fixture.client, runId);
  await waitFor("both changes are told", () => new Set(updated).size === 2);
  const read = async (uri: string): Promise<string> => {
    const [content] = (await client.readResource({ uri })).contents;
    return content !== undefined && "text" in content ? content.text : "";
  };
  expect(await read(log)).toContain("end");
  expect(JSON.parse(await read(`holdfast://tasks/${data.taskId}`))).toMatchObject({ status: "succeeded" });
  await expect(client.readResource({ uri: "holdfast://runs/run_000000000000/log" })).rejects.toThrow(
    /not found/i,
  );
  await client.close();
});
