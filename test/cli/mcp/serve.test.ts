import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { sessionKey } from "../../../src/cli/mcp/serve.js";
import { callTool, connectOverStdio, newMcpClient } from "../../support/mcp/mcp-clients.js";
import { waitFor } from "../../support/wait-for.js";
import { ServeFixture } from "./serve-fixture.js";

interface ExecData {
  readonly run: { readonly runId: string };
  readonly taskId: string | null;
}

test("a client that is killed takes its foreground command with it, and leaves its task to the next connection", async () => {
  await using fixture = await ServeFixture.open();
  const first = await connectOverStdio(newMcpClient("2026-07-28"), fixture.home);
  const { data } = await callTool<ExecData>(first.client, "exec", { command: "sleep 300", background: true });
  const waiting = callTool(first.client, "exec", { command: "sleep 301", yieldMs: 60_000 });
  waiting.catch(() => undefined);
  const operator = await fixture.operator();
  const foreground = async () =>
    (await operator.listRuns({ query: { all: "1" } })).runs.find(({ command }) => command.includes("301"));
  await waitFor("the foreground command runs", async () => (await foreground())?.state === "running");
  process.kill(first.pid, "SIGKILL");
  await waitFor("the foreground command is gone", async () => (await foreground())?.state === "exited");
  expect((await operator.getRun({ params: { runId: data.run.runId } })).state).toBe("running");

  const next = await connectOverStdio(newMcpClient("2025-11-25"), fixture.home);
  const { data: listed } = await callTool<{ runs: { runId: string }[] }>(next.client, "process", {
    action: "list",
  });
  expect(listed.runs.map(({ runId }) => runId)).toEqual([data.run.runId]);
  await callTool(next.client, "process", { action: "kill", runId: data.run.runId });
  await next.client.close();
  expect((await operator.listSessions()).sessions.map(({ key }) => key)).toEqual([
    sessionKey("probe", fixture.home),
  ]);
});

test("a gateway that was stopped is started again by the next call, which sees the session's records", async () => {
  await using fixture = await ServeFixture.open();
  const { client } = await connectOverStdio(newMcpClient("2026-07-28"), fixture.home);
  const { data } = await callTool<ExecData>(client, "exec", { command: "true" });
  await fixture.holdfast("gateway", "stop");
  const { data: after } = await callTool<{ runs: { runId: string }[] }>(client, "process", {
    action: "list",
    all: true,
  });
  expect(after.runs.map(({ runId }) => runId)).toEqual([data.run.runId]);
  await client.close();
});

test("a restart of the gateway interrupts neither a waiting call nor a task, which a later client finds", async () => {
  await using fixture = await ServeFixture.open();
  await fixture.shell(`mkfifo ${fixture.home}/go`);
  const { client } = await connectOverStdio(newMcpClient("2026-07-28"), fixture.home);
  const task = await callTool<ExecData>(client, "exec", { command: "sleep 300", background: true });
  const operator = await fixture.operator();
  const waiting = callTool<ExecData>(client, "exec", {
    command: "read line < go; echo got $line",
    yieldMs: 120_000,
  });
  const begun = async () =>
    (await operator.listRuns({ query: {} })).runs.find(({ command }) => command.includes("got"))?.state ===
    "running";
  await waitFor("the command waits", begun);
  expect(await fixture.holdfast("gateway", "restart")).toMatchObject({ code: 0 });
  await writeFile(join(fixture.home, "go"), "through\n");
  expect(await waiting).toMatchObject({ isError: false, text: expect.stringContaining("got through") });
  await client.close();
  const later = await connectOverStdio(newMcpClient("2026-07-28"), fixture.home);
  const found = await callTool<{ task: { status: string } }>(later.client, "tasks", {
    ...{ action: "show", taskId: task.data.taskId },
  });
  expect(found.data.task.status).toBe("running");
  await callTool(later.client, "tasks", { action: "cancel", taskId: task.data.taskId });
  await later.client.close();
});

test("a command is not started again when the session's token ends during its call", async () => {
  await using fixture = await ServeFixture.open();
  const { client } = await connectOverStdio(newMcpClient("2026-07-28"), fixture.home, [
    ...["--session", "rotated", "--allow", "*"],
  ]);
  const begun = callTool<ExecData>(client, "exec", {
    command: "echo begun >> log; sleep 300",
    yieldMs: 3_000,
  });
  const log = join(fixture.home, "log");
  await waitFor("the command runs", () => existsSync(log));
  const operator = await fixture.operator();
  await operator.rotateToken({ params: { id: "rotated" } });
  const { data, text } = await begun;
  expect(data.taskId, text).toMatch(/^task_/);
  expect(await readFile(log, "utf8")).toBe("begun\n");
  await callTool(client, "process", { action: "kill", runId: data.run.runId });
  await client.close();
});

test("cancelling a call stops its command, also after a restart of the gateway", async () => {
  await using fixture = await ServeFixture.open();
  const { client } = await connectOverStdio(newMcpClient("2026-07-28"), fixture.home);
  const cancel = new AbortController();
  const call = callTool(
    client,
    "exec",
    { command: "echo > begun; sleep 300", yieldMs: 120_000 },
    { signal: cancel.signal },
  );
  call.catch(() => undefined);
  await waitFor("the command runs", () => existsSync(join(fixture.home, "begun")));
  expect(await fixture.holdfast("gateway", "restart")).toMatchObject({ code: 0 });
  const operator = await fixture.operator();
  const state = async () => (await operator.listRuns({ query: { all: "1" } })).runs.map((run) => run.state);
  expect(await state()).toEqual(["running"]);
  cancel.abort();
  await waitFor("the command is gone", async () => (await state())[0] === "exited");
  await client.close();
});

test("--session names the session, and a token in the environment cannot be combined with it", async () => {
  await using fixture = await ServeFixture.open();
  const { client } = await connectOverStdio(newMcpClient("2026-07-28"), fixture.home, [
    ...["--session", "review", "--deny", "*"],
  ]);
  const { text } = await callTool(client, "exec", { command: "true" });
  expect(text).toContain("EXEC_DENIED");
  await client.close();
  const operator = await fixture.operator();
  expect((await operator.listSessions()).sessions.map(({ key }) => key)).toEqual(["review"]);
  const { child, finished } = fixture.startWith({ HOLDFAST_TOKEN: "hft_x" }, "mcp", "--session", "review");
  child.stdin.end();
  expect(await finished).toMatchObject({ code: 2, stdout: "" });
});

test("a client whose rules have changed is told how the session gets them", async () => {
  await using fixture = await ServeFixture.open();
  const first = await connectOverStdio(newMcpClient("2026-07-28"), fixture.home, ["--allow", "*"]);
  expect((await callTool(first.client, "exec", { command: "true" })).isError).toBe(false);
  await first.client.close();
  const next = await connectOverStdio(newMcpClient("2026-07-28"), fixture.home, ["--deny", "*"]);
  const refused = await callTool(next.client, "exec", { command: "true" });
  expect([refused.isError, refused.text]).toEqual([
    true,
    expect.stringMatching(/^SESSION_TAKEN: .*\n.*holdfast sessions close/),
  ]);
  await fixture.holdfast("sessions", "close", sessionKey("probe", fixture.home));
  expect((await callTool(next.client, "exec", { command: "true" })).text).toContain("EXEC_DENIED");
  await next.client.close();
});

test("the key of a session is the same for a client and a directory, printable, and short enough", () => {
  expect(sessionKey("claude-code", "/srv/site")).toBe("mcp:claude-code:/srv/site");
  expect(sessionKey("", "/w")).toBe("mcp:client:/w");
  expect(sessionKey("a b\u001b[31m", "/w")).toBe("mcp:a-b:/w");
  expect(sessionKey("c", "/w\u001b[31m")).toMatch(/^mcp:c:\/w#[0-9a-f]{12}$/);
  const long = [sessionKey("c", `/${"x".repeat(300)}/1`), sessionKey("c", `/${"x".repeat(300)}/2`)];
  expect(new Set(long.map(({ length }) => length))).toEqual(new Set([200]));
  expect(long[0]).not.toBe(long[1]);
});
