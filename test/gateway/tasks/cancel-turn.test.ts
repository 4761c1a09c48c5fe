import { describe, expect, test } from "vitest";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import { findProcessesOfRun } from "../../support/supervisor/real-supervisor.js";
import { errorOf } from "../../support/gateway/real-gateway.js";
import { userOrigin, taskGateway } from "../../support/gateway/task-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const { stage: fixture, place, userHeard, shown, ended, told, boss } = taskGateway();

describe("an agent's turn that is cancelled", () => {
  test("of a session: the turn ends, its agent stays, and the requester is notified", async () => {
    const parent = await boss("boss-6");
    const child = { argv: shellAgent(), cwd: place, key: "child-6" };
    await parent.client.acpSpawn({ body: child });
    const { turn } = await parent.client.acpPrompt({
      params: { id: "child-6" },
      body: { text: "sleep 1000", wait: false, background: true },
    });
    await waitFor("it is at work", async () => (await shown("child-6")).task.progress === "sleep 1000");
    const { turn: next } = await parent.client.acpPrompt({
      params: { id: "child-6" },
      body: { text: "echo 2", wait: false, background: true },
    });
    expect((await parent.client.cancelTask({ params: { id: next.turnId } })).task).toMatchObject({
      status: "cancelled",
      startedAt: null,
      error: "it was cancelled by session:boss-6",
    });
    const { task, outcome } = await parent.client.cancelTask({ params: { id: turn.turnId } });
    expect([outcome, task.status, task.turnId]).toEqual(["cancelled", "cancelled", turn.turnId]);
    await told(task.taskId, "session_queued");
    expect((await fixture.client.acpShow({ params: { id: "child-6" } })).session.state).toBe("ready");
    const refused = await errorOf(
      fixture.client.notifyTask({ params: { id: task.taskId }, body: { policy: "silent" } }),
    );
    expect(refused).toMatchObject({ code: "TASK_REFUSED" });
  });

  test("by ending its agent's process: the task names the actor", async () => {
    const { session } = await fixture.client.acpSpawn({
      body: { argv: shellAgent(), cwd: place, key: "ended-6", prompt: "sleep 1000", background: true },
    });
    await waitFor("it is at work", async () => (await shown("ended-6")).task.status === "running");
    await fixture.client.kill({
      params: { runId: session.runId ?? "" },
      body: { reason: "too loud" },
    });
    expect(await ended("ended-6")).toMatchObject({
      status: "cancelled",
      error: "it was cancelled by operator (too loud)",
      runId: session.runId,
    });
  });

  test("of a session with mode run: its session ends with it, and no process is left", async () => {
    const { session } = await fixture.client.acpSpawn({
      body: {
        argv: shellAgent(),
        cwd: place,
        mode: "run",
        prompt: "sleep 1000",
        background: true,
        origin: userOrigin,
      },
    });
    await waitFor("it is at work", async () => (await shown(session.sessionId)).task.status === "running");
    const { task, outcome } = await fixture.client.cancelTask({ params: { id: session.sessionId } });
    expect([outcome, task.status]).toEqual(["cancelled", "cancelled"]);
    expect(await findProcessesOfRun(session.runId ?? "")).toEqual([]);
    await told(task.taskId, "delivered");
    const about = userHeard().filter(({ taskId }) => taskId === task.taskId);
    expect(about.map(({ status }) => status)).toEqual(["cancelled"]);
  });
});
