import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Client } from "@modelcontextprotocol/client";
import { afterAll, describe, expect, test } from "vitest";
import { parseConfig } from "../../src/config/schema.js";
import { tools } from "../../src/mcp/server.js";
import { gatewayForFile, waitForRunEnd } from "../support/gateway/real-gateway.js";
import { callTool, connectOverHttp, connectOverStdio, newMcpClient } from "../support/mcp/mcp-clients.js";
import { eachTransport } from "../support/mcp/each-transport.js";
import { waitFor } from "../support/wait-for.js";

const fixture = gatewayForFile({ config: parseConfig('[gateway]\nlisten = "127.0.0.1:0"', "c.toml") });

interface Run {
  readonly runId: string;
  readonly state: string;
  readonly exitCode: number | null;
}
interface Output {
  readonly text: string;
  readonly offset: number;
  readonly nextOffset: number;
  readonly leftOutBytes: number;
}
interface ExecData {
  readonly run: Run;
  readonly failure: string | null;
  readonly taskId: string | null;
  readonly stdout: Output;
  readonly stderr: Output;
}

let sessions = 0;

async function newToken(
  execRules: { effect: "allow" | "ask" | "deny" }[] = [{ effect: "allow" }],
): Promise<string> {
  sessions += 1;
  const { token } = await fixture.client.openSession({ body: { key: `mcp-${sessions}`, execRules } });
  return token;
}

async function overHttp(token?: string): Promise<Client> {
  const { listen } = await fixture.client.status();
  return connectOverHttp(newMcpClient("2026-07-28"), listen ?? "", token ?? (await newToken()));
}

const matrix = eachTransport(fixture, "allow");

describe.each(matrix)("over $name", ({ open }) => {
  const opened = open;
  let client: Client;
  const connected = async (): Promise<Client> => (client ??= await opened());
  afterAll(async () => client?.close());

  test("the tools are listed with titles, annotations and schemas of both sides", async () => {
    const { tools: listed } = await (await connected()).listTools();
    expect(listed.map(({ name }) => name)).toEqual(tools.map(({ name }) => name));
    for (const { title, annotations, inputSchema, outputSchema } of listed) {
      expect(title).toEqual(expect.any(String));
      expect(annotations?.readOnlyHint).toEqual(expect.any(Boolean));
      expect(inputSchema["type"]).toBe("object");
      expect(outputSchema?.["type"]).toBe("object");
    }
  });

  test("exec answers with output, exit code and the process's record, and marks a failed command", async () => {
    const ok = await callTool<ExecData>(await connected(), "exec", { command: "echo out; echo err >&2" });
    expect(ok).toMatchObject({
      isError: false,
      data: { run: { state: "ended", exitCode: 0 }, failure: null, taskId: null },
    });
    expect(ok.data.stdout.text).toBe("out\n");
    expect(ok.data.stderr.text).toBe("err\n");
    expect(ok.text).toMatch(/^out\n\[stderr\]\nerr\n\[run_\w+ ended with exit code 0\]$/);
    const failed = await callTool<ExecData>(client, "exec", { argv: ["/bin/sh", "-c", "exit 7"], cwd: "/" });
    expect(failed).toMatchObject({
      isError: true,
      data: { failure: "exit-code", run: { exitCode: 7, cwd: "/" } },
    });
    const variable = { command: "echo $X; cat", env: ["X=a=b"], input: "typed" };
    expect((await callTool<ExecData>(client, "exec", variable)).data.stdout.text).toBe("a=b\ntyped");
  });

  test("a command that takes longer than yieldMs continues as a task, whose output is polled by offset", async () => {
    const begun = await callTool<ExecData>(await connected(), "exec", {
      command: "echo first; read line; echo got $line",
      terminal: true,
      yieldMs: 100,
    });
    const { run, taskId } = begun.data;
    expect(run.state).toBe("running");
    expect(begun.text).toContain(`continues as ${taskId}`);
    expect((await fixture.client.getTask({ params: { id: taskId ?? "" } })).task.runId).toBe(run.runId);
    const listed = await callTool<{ runs: Run[] }>(client, "process", { action: "list" });
    expect(listed.data.runs.map(({ runId }) => runId)).toContain(run.runId);
    await callTool(client, "process", { action: "submit", runId: run.runId, text: "hello" });
    await waitForRunEnd(fixture.client, run.runId);
    const polled = await callTool<{ stdout: Output; run: Run }>(client, "process", {
      action: "poll",
      runId: run.runId,
      stdoutOffset: begun.data.stdout.nextOffset,
    });
    expect(polled.data.stdout.text).toContain("got hello");
    expect(polled.data.stdout.text).not.toContain("first");
    expect(polled.data.run).toMatchObject({ state: "ended", exitCode: 0 });
  });

  test("keys and the screen of a full-screen program", async () => {
    const { data } = await callTool<ExecData>(await connected(), "exec", {
      command: "stty -echo; printf 'ready> '; cat",
      terminal: true,
      background: true,
    });
    const { runId } = data.run;
    const screenText = async (): Promise<string> =>
      (await callTool<{ screen: { text: string } }>(client, "process", { action: "screen", runId })).data
        .screen.text;
    await waitFor("the prompt", async () => (await screenText()).includes("ready>"));
    await callTool(client, "process", { action: "keys", runId, keys: ["o", "k", "Enter"] });
    await waitFor("the answer", async () => (await screenText()).includes("ok"));
    const killed = await callTool<{ outcome: string }>(client, "process", { action: "kill", runId });
    expect(killed).toMatchObject({ isError: false, data: { outcome: "gone" } });
  });

  test("what does not fit is left out with its place, and log reads it", async () => {
    const { data, text } = await callTool<ExecData>(await connected(), "exec", { command: "seq 1 20000" });
    const { leftOutBytes, offset } = data.stdout;
    expect(leftOutBytes).toBeGreaterThan(0);
    expect(offset).toBe(leftOutBytes);
    expect(text).toContain(`runId ${data.run.runId}, stream stdout, offset 0`);
    const read = async (from: number) =>
      (
        await callTool<{ log: Output & { ended: boolean } }>(client, "process", {
          ...{ action: "log", runId: data.run.runId, offset: from },
        })
      ).data.log;
    let all = "";
    for (let at = 0, ended = false; !ended;) {
      const page = await read(at);
      all += page.text;
      at = page.nextOffset;
      ended = page.ended;
    }
    expect(all).toBe(Array.from({ length: 20_000 }, (_, at) => `${at + 1}\n`).join(""));
  });

  test("a wrong call says what is wrong, does nothing, and is not an error of the protocol", async () => {
    const wrong = await callTool(await connected(), "exec", { commandd: "x", yieldMs: "soon" });
    expect(wrong.isError).toBe(true);
    expect(wrong.text).toMatch(/yieldMs: .*number.*commandd.*Nothing was done/s);
    expect((await callTool(client, "process", { action: "poll" })).text).toContain("poll needs runId");
    const absent = await callTool(client, "process", { action: "kill", runId: "run_000000000000" });
    expect(absent).toMatchObject({ isError: true, text: expect.stringContaining("process list shows") });
    await expect(callTool(client, "no\u001b[31mtool")).rejects.toThrow(/Unknown tool/);
    await expect(client.listResources({ cursor: "x" })).rejects.toMatchObject({ code: -32_602 });
  });

  test("tasks: a background command is listed, waited for and cancelled", async () => {
    const started = await callTool<ExecData>(await connected(), "exec", {
      command: "sleep 1",
      background: true,
    });
    const taskId = started.data.taskId ?? "";
    interface TaskData {
      readonly task: { readonly status: string; readonly runId: string };
    }
    const waited = await callTool<TaskData>(client, "tasks", { action: "wait", taskId, waitMs: 60_000 });
    expect(waited.data.task).toMatchObject({ status: "succeeded", runId: started.data.run.runId });
    const long = await callTool<ExecData>(client, "exec", { command: "sleep 300", background: true });
    const listed = await callTool<{ tasks: { taskId: string }[] }>(client, "tasks", {
      action: "list",
      open: true,
    });
    expect(listed.data.tasks.map(({ taskId: each }) => each)).toContain(long.data.taskId);
    const still = await callTool<TaskData>(client, "tasks", {
      action: "wait",
      taskId: long.data.taskId,
      waitMs: 50,
    });
    expect(still.data.task.status).toBe("running");
    const policy = { action: "notify", taskId: long.data.taskId, policy: "silent" };
    expect((await callTool(client, "tasks", policy)).isError).toBe(false);
    const cancelled = await callTool<TaskData & { outcome: string }>(client, "tasks", {
      ...{ action: "cancel", taskId: long.data.taskId },
    });
    expect(cancelled.data).toMatchObject({ outcome: "cancelled", task: { status: "cancelled" } });
    expect((await callTool<TaskData>(client, "tasks", { action: "show", taskId })).data.task.status).toBe(
      "succeeded",
    );
  });

  test("cancelling a call stops its command", async () => {
    const cancel = new AbortController();
    const label = `cancelled-${matrix.findIndex(({ open: each }) => each === opened)}`;
    const call = callTool(
      await connected(),
      "exec",
      { argv: ["/bin/sh", "-c", "sleep 300", label], yieldMs: 60_000 },
      { signal: cancel.signal },
    );
    const find = async () =>
      (await fixture.client.listRuns({ query: { all: "1" } })).runs.find(({ command }) =>
        command.includes(label),
      );
    await waitFor("the command runs", async () => (await find())?.state === "running");
    cancel.abort();
    await expect(call).rejects.toThrow();
    await waitFor("the command is gone", async () => (await find())?.state === "exited");
    expect((await find())?.exit?.reason).toBe("manual-cancel");
  });

  test("progress of a waiting call has the newest line", async () => {
    const seen: string[] = [];
    await callTool(
      await connected(),
      "exec",
      { command: "echo working; sleep 2.5" },
      { onprogress: ({ message = "" }) => seen.push(message) },
    );
    expect(seen.at(-1)).toMatch(/^\d+ s: working$/);
  });
});

test("a path of a directory is relative to that of a client over stdio, and must be absolute over HTTP", async () => {
  await mkdir(join(fixture.home, "below"));
  const { client: local } = await connectOverStdio(newMcpClient("2026-07-28"), fixture.home);
  const { data } = await callTool<ExecData>(local, "exec", { command: "pwd", cwd: "below" });
  expect(data.stdout.text).toBe(`${join(fixture.home, "below")}\n`);
  await local.close();
  const remote = await overHttp();
  const calls = [
    callTool(remote, "exec", { command: "pwd", cwd: "below" }),
    callTool(remote, "agents", { action: "spawn", agent: "claude", cwd: "below" }),
  ];
  for (const { isError, text } of await Promise.all(calls))
    expect([isError, text]).toEqual([true, "cwd must be an absolute path. Nothing was done."]);
  await remote.close();
});

test("exec rules of the session decide, and a refusal says what to do", async () => {
  const client = await overHttp(await newToken([{ effect: "deny" }]));
  const refused = await callTool(client, "exec", { command: "true" });
  expect(refused).toMatchObject({
    isError: true,
    text: expect.stringMatching(/^EXEC_DENIED: .*\n.*approvals/s),
  });
  await client.close();
});

test("a session sees its own commands and not those of another session", async () => {
  const [one, other] = [await overHttp(), await overHttp()];
  const { data } = await callTool<ExecData>(one, "exec", { command: "sleep 100", background: true });
  const { runId } = data.run;
  expect((await callTool<{ runs: Run[] }>(other, "process", { action: "list" })).data.runs).toEqual([]);
  expect((await callTool(other, "process", { action: "kill", runId })).isError).toBe(true);
  expect((await callTool<{ runs: Run[] }>(one, "process", { action: "list" })).data.runs).toHaveLength(1);
  await callTool(one, "process", { action: "kill", runId });
  await Promise.all([one.close(), other.close()]);
});

test("the operator's token, a wrong one, none, and a foreign origin are refused", async () => {
  const { listen } = await fixture.client.status();
  const body = JSON.stringify({
    ...{ jsonrpc: "2.0", id: 1, method: "initialize" },
    params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "probe", version: "1" } },
  });
  const post = (headers: Record<string, string>) =>
    fetch(`http://${listen}/mcp`, {
      ...{ method: "POST", body },
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...headers,
      },
    });
  const statuses = [
    await post({ authorization: `Bearer ${fixture.token}` }),
    await post({ authorization: "Bearer hft_0" }),
    await post({}),
    await post({ authorization: `Bearer ${await newToken()}`, origin: "http://evil.example" }),
    await post({ authorization: `Bearer ${await newToken()}` }),
  ].map(({ status }) => status);
  expect(statuses).toEqual([401, 401, 401, 403, 200]);
});
