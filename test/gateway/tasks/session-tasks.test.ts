import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { followNdjson } from "../../../src/api/client.js";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import { errorOf } from "../../support/gateway/real-gateway.js";
import { taskGateway } from "../../support/gateway/task-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const { stage: fixture, place, userHeard, shown, ended, told, typesOf, boss } = taskGateway();

describe("a session's background work", () => {
  test("is notified only to that session, at its next turn, and delivered when its agent has answered", async () => {
    const parent = await boss("boss-1");
    const before = userHeard();
    const { session, turn } = await parent.client.acpSpawn({
      body: {
        argv: shellAgent(),
        cwd: place,
        mode: "run",
        background: true,
        prompt: "echo 42 is the answer",
      },
    });
    const {
      tasks: [task],
    } = await parent.client.listTasks({ query: { session: session.sessionId } });
    expect(task).toMatchObject({
      runtime: "acp",
      ownerSessionId: parent.id,
      childSessionId: session.sessionId,
      turnId: turn?.turnId,
      runId: session.runId,
      policy: "done_only",
      targets: [{ kind: "session", sessionId: parent.id }],
    });
    const done = await ended(task?.taskId ?? "", parent.client);
    expect(done).toMatchObject({ status: "succeeded", summary: "42 is the answer" });
    await told(done.taskId, "session_queued");
    const { turn: next } = await fixture.client.acpPrompt({
      params: { id: parent.id },
      body: { text: "well?" },
    });
    expect(next.text).toBe(
      "Notice from Holdfast, not from a person:\n> Task “echo 42 is the answer” succeeded: 42 is the answer\n\nwell?",
    );
    await told(done.taskId, "delivered");
    const { messages } = await shown(done.taskId);
    expect(messages).toMatchObject([
      { id: `task-terminal:${done.taskId}`, status: "delivered", attempts: 1 },
    ]);
    expect(await typesOf(done.taskId)).toEqual(["created", "started", "ended"]);
    // The user's channel got neither the end nor a typing indicator.
    expect(userHeard()).toEqual(before);
  });

  test("that fails is notified with the reason, without the agent's partial text", async () => {
    const parent = await boss("boss-2");
    const { turn } = await parent.client.acpSpawn({
      body: {
        argv: shellAgent("echo"),
        cwd: place,
        mode: "run",
        background: true,
        prompt: "DIE while chattering",
      },
    });
    const {
      tasks: [task],
    } = await parent.client.listTasks({ query: { runtime: "acp" } });
    expect(task?.turnId).toBe(turn?.turnId);
    const id = task?.taskId ?? "";
    expect(await ended(id)).toMatchObject({ status: "failed", summary: null, outcome: null });
    await told(id, "session_queued");
    const { turns } = await fixture.client.acpShow({ params: { id: turn?.sessionId ?? "" } });
    expect(turns).toMatchObject([{ text: "on the way" }]);
    const { messages } = await shown(id);
    expect(messages[0]?.text).toMatch(/^Task “DIE while chattering” failed: /);
    expect(JSON.stringify(messages)).not.toContain("on the way");
    expect(messages).toHaveLength(1);
  });

  test("that it waits for is a task without a notification: it has the answer", async () => {
    const parent = await boss("boss-3");
    const goOn = join(place, "go-on");
    const { session, turn } = await parent.client.acpSpawn({
      body: { argv: shellAgent(), cwd: place, key: "its-child", prompt: "echo one", wait: true },
    });
    expect(turn).toMatchObject({ outcome: "completed", text: "one\n" });
    const first = await ended(session.sessionId);
    expect(first).toMatchObject({ delivery: "not_applicable", summary: "one", turnId: turn?.turnId });
    // A turn of a session with a parent, asked for and left alone.
    const { turn: second } = await parent.client.acpPrompt({
      params: { id: "its-child" },
      body: { text: `until test -e ${goOn}; do sleep 0.1; done; echo two`, wait: false, background: true },
    });
    // A session's name means its open task; it is ambiguous with several, and the newest when all have ended.
    expect((await shown("its-child", parent.client)).task.turnId).toBe(second.turnId);
    const { turn: third } = await parent.client.acpPrompt({
      params: { id: "its-child" },
      body: { text: "echo three", wait: false, background: true },
    });
    const named = await errorOf(shown("its-child", parent.client));
    expect(named).toMatchObject({ code: "BAD_INPUT" });
    expect(named.message).toContain("may mean several tasks");
    writeFileSync(goOn, "");
    await ended(second.turnId);
    await ended(third.turnId);
    expect((await shown("its-child", parent.client)).task.turnId).toBe(third.turnId);
    const { tasks } = await parent.client.listTasks({ query: { session: "its-child" } });
    expect(tasks.map(({ turnId }) => turnId)).toEqual([third.turnId, second.turnId, turn?.turnId]);
    const id = tasks[1]?.taskId ?? "";
    expect(await ended(id)).toMatchObject({ status: "succeeded", summary: "two" });
    await told(id, "session_queued");
    // The parent is closed before it has read the message.
    await fixture.client.acpClose({ params: { id: parent.id } });
    await fixture.client.maintainTasks({ body: { apply: true } });
    await told(id, "parent_missing");
  });

  test("that it stopped waiting for is notified", async () => {
    const parent = await boss("boss-12");
    const gate = join(place, "left-gate");
    await parent.client.acpSpawn({ body: { argv: shellAgent(), cwd: place, key: "child-12" } });
    const patience = new AbortController();
    const asking = parent.client.acpPrompt(
      {
        params: { id: "child-12" },
        body: { text: `while [ ! -e ${gate} ]; do sleep 0.02; done; echo late` },
      },
      patience.signal,
    );
    const left = errorOf(asking);
    await waitFor("it is at work", async () => {
      const [task] = (await parent.client.listTasks()).tasks;
      return task?.status === "running";
    });
    patience.abort();
    expect(await left).toMatchObject({ code: "ABORT_ERR" });
    writeFileSync(gate, "");
    expect(await told("child-12", "session_queued")).toMatchObject({ summary: "late", policy: "done_only" });
  });

  test("is notified until a turn succeeds: a failed turn does not count", async () => {
    const parent = await boss("boss-13");
    const { task } = await parent.client.createTask({ body: { label: "index" } });
    const params = { id: task.taskId };
    await parent.client.finishTask({ params, body: { status: "succeeded", summary: "12 files" } });
    await told(task.taskId, "session_queued");
    const ask = async (text: string) =>
      (await fixture.client.acpPrompt({ params: { id: "boss-13" }, body: { text } })).turn;
    expect(await ask("DIE")).toMatchObject({ outcome: "interrupted" });
    const { messages } = await parent.client.sessionInbox({ params: { id: parent.id } });
    expect(messages).toMatchObject([{ turnId: null, inVain: 1, deliveredAt: null }]);
    expect((await shown(task.taskId)).task.delivery).toBe("session_queued");
    expect((await ask("go on")).text).toContain("> (again) Task “index” succeeded: 12 files");
    await told(task.taskId, "delivered");
  });

  test("that it requests by a message is notified like a turn; messages of others to its child are not tasks", async () => {
    const parent = await boss("boss-9");
    const child = { argv: shellAgent("echo"), cwd: place, key: "child-9" };
    await parent.client.acpSpawn({ body: child });
    const params = { id: "child-9" };
    await fixture.client.sendMessage({ params, body: { text: "hello" } });
    const { message } = await parent.client.sendMessage({ params, body: { text: "and what now?" } });
    await waitFor("its end is told", async () => {
      const { tasks } = await parent.client.listTasks({ query: { delivery: "session_queued" } });
      return tasks.length > 0;
    });
    const { tasks } = await fixture.client.listTasks({ query: { session: "child-9" } });
    expect(tasks).toMatchObject([
      {
        runtime: "acp",
        label: "and what now?",
        ownerSessionId: parent.id,
        status: "succeeded",
        turnId: `turn_${message.id.slice(4)}`,
        summary: "Message from session boss-9 (no agent):\n> and what now?",
      },
    ]);
  });

  test("cannot be silenced by the session that does it, nor assigned to another agent", async () => {
    const parent = await boss("boss-13");
    const body = { argv: shellAgent(), cwd: place, key: "child-13", prompt: "sleep 1000", background: true };
    await parent.client.acpSpawn({ body });
    const child = fixture.as((await fixture.client.openSession({ body: { key: "child-13" } })).token);
    const { task } = await shown("child-13", child);
    const change = { params: { id: task.taskId }, body: { policy: "silent" } } as const;
    expect(await errorOf(child.notifyTask(change))).toMatchObject({ code: "BAD_INPUT" });
    expect((await shown(task.taskId)).task.policy).toBe("done_only");
    expect((await parent.client.notifyTask(change)).changed).toBe(true);
    const forged = { label: "mine", agentId: "codex" };
    expect(await errorOf(child.createTask({ body: forged }))).toMatchObject({ code: "BAD_INPUT" });
    expect((await fixture.client.createTask({ body: forged })).task.agentId).toBe("codex");
    await parent.client.cancelTask({ params: { id: task.taskId } });
  });

  test("is visible to that session and the operator; to others it does not exist", async () => {
    const parent = await boss("boss-5");
    const stranger = (await fixture.client.openSession({ body: { key: "stranger-5" } })).token;
    const { run } = await parent.client.exec({ body: { argv: ["sleep", "100"], background: true } });
    const { taskId } = (await shown(run.runId, parent.client)).task;
    const others = fixture.as(stranger);
    const missing = await errorOf(shown("task_000000000000", others));
    for (const name of [taskId, run.runId, taskId.slice(0, -1), "boss-5"]) {
      const { code, message } = await errorOf(shown(name, others));
      expect([code, message.replace(name, "task_000000000000")]).toEqual([missing.code, missing.message]);
    }
    for (const act of ["cancelTask", "notifyTask", "taskProgress", "finishTask"] as const)
      expect(
        await errorOf(
          others[act]({
            params: { id: taskId },
            body: (act === "notifyTask"
              ? { policy: "silent" }
              : act === "finishTask"
                ? { status: "failed" }
                : {}) as never,
          }),
        ),
      ).toMatchObject({ code: "NOT_FOUND" });
    expect((await others.listTasks()).tasks).toEqual([]);
    expect(await errorOf(others.listTasks({ query: { session: "boss-5" } }))).toMatchObject({
      code: "NOT_FOUND",
    });
    expect((await parent.client.listTasks()).tasks.map((task) => task.taskId)).toEqual([taskId]);
    for (const verb of ["retryTask", "dismissTask", "auditTasks", "maintainTasks"] as const)
      expect(await errorOf(parent.client[verb]({ params: { id: taskId } } as never))).toMatchObject({
        code: "NOT_FOUND",
      });
    const lines: { readonly type: string; readonly data: Record<string, unknown> }[] = [];
    const waiting = (async () => {
      const path = `/v1/tasks/${taskId}/events?follow=1`;
      for await (const line of followNdjson<(typeof lines)[number]>(fixture, path)) lines.push(line);
    })();
    expect(await parent.client.cancelTask({ params: { id: taskId.slice(0, -2) } })).toMatchObject({
      outcome: "cancelled",
    });
    await waiting;
    expect(lines.map(({ type }) => type)).toEqual(["created", "started", "ended"]);
    expect(lines.at(-1)?.data).toMatchObject({ status: "cancelled", actor: "session:boss-5" });
  });
});
