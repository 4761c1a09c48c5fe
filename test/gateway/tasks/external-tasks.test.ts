import { describe, expect, test } from "vitest";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import { errorOf } from "../../support/gateway/real-gateway.js";
import { userOrigin, taskGateway } from "../../support/gateway/task-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const { stage: fixture, place, userHeard, shown, told, typesOf, boss } = taskGateway();

describe("an external task", () => {
  test("is created once per key, reports progress, is finished, and notifies its user's channel", async () => {
    const body = { label: "nightly", key: "nightly-1", queued: true, origin: userOrigin };
    const { task, created } = await fixture.client.createTask({ body });
    expect([created, task.status, task.policy]).toEqual([true, "queued", "done_only"]);
    expect(await fixture.client.createTask({ body })).toEqual({ task, created: false });
    const params = { id: task.taskId };
    const early = await errorOf(fixture.client.finishTask({ params, body: { status: "succeeded" } }));
    expect(early).toMatchObject({ code: "TASK_REFUSED" });
    expect(await fixture.client.taskProgress({ params, body: { text: "half way" } })).toMatchObject({
      stop: false,
      task: { status: "running", progress: "half way" },
    });
    const end = { status: "succeeded", outcome: "blocked", summary: "needs a password" } as const;
    expect(await fixture.client.finishTask({ params, body: end })).toMatchObject({ changed: true });
    expect(await fixture.client.finishTask({ params, body: end })).toMatchObject({ changed: false });
    const late = await errorOf(fixture.client.finishTask({ params, body: { status: "failed" } }));
    expect(late).toMatchObject({ code: "TASK_REFUSED" });
    await told(task.taskId, "delivered");
    expect(userHeard().filter(({ taskId }) => taskId === task.taskId)).toMatchObject([
      { type: "task.terminal", text: "Task “nightly” is blocked: needs a password" },
    ]);
    expect(await typesOf(task.taskId)).toEqual([
      "created",
      "refused",
      "started",
      "progress",
      "ended",
      "refused",
    ]);
  });

  test("that is cancelled gets that answer at its next heartbeat", async () => {
    const { task } = await fixture.client.createTask({ body: { text: "dig", heartbeatMs: 60_000 } });
    const params = { id: task.taskId };
    expect((await fixture.client.taskProgress({ params })).stop).toBe(false);
    expect((await fixture.client.cancelTask({ params })).outcome).toBe("cancelled");
    expect(await fixture.client.taskProgress({ params })).toMatchObject({
      stop: true,
      task: { status: "cancelled" },
    });
    expect(await typesOf(task.taskId)).toEqual(["created", "started", "ended"]);
  });

  test.for([
    ["done_only", ["task.terminal"]],
    ["state_changes", ["task.state", "task.terminal"]],
    ["silent", []],
  ] as const)("under the policy %s the user gets %j", async ([notify, types]) => {
    const { task } = await fixture.client.createTask({
      body: { label: `under ${notify}`, notify, origin: userOrigin },
    });
    const params = { id: task.taskId };
    if (notify === "state_changes")
      await waitFor("its start is told", () => userHeard().some(({ taskId }) => taskId === task.taskId));
    // Progress so soon after the start is replaced by the end.
    await fixture.client.taskProgress({ params, body: { text: "chatter" } });
    await fixture.client.finishTask({ params, body: { status: "failed", error: "no luck" } });
    await told(task.taskId, notify === "silent" ? "not_applicable" : "delivered");
    const about = userHeard().filter(({ taskId }) => taskId === task.taskId);
    expect(about.map(({ type }) => type)).toEqual(types);
    expect(about.at(-1)?.text ?? "none").toBe(
      notify === "silent" ? "none" : `Task “under ${notify}” failed: no luck`,
    );
  });

  test("has a policy that can be changed while it runs; an invalid policy is refused on every route", async () => {
    const { task } = await fixture.client.createTask({ body: { label: "quiet", origin: userOrigin } });
    const params = { id: task.taskId };
    expect(await fixture.client.notifyTask({ params, body: { policy: "silent" } })).toMatchObject({
      changed: true,
      task: { delivery: "not_applicable" },
    });
    await fixture.client.finishTask({ params, body: { status: "succeeded" } });
    expect((await shown(task.taskId)).messages).toEqual([]);
    const wrong = { notify: "always", policy: "always" } as never;
    for (const asked of [
      () => fixture.client.notifyTask({ params, body: wrong }),
      () => fixture.client.createTask({ body: { label: "x", ...(wrong as object) } }),
      () => fixture.client.exec({ body: { argv: ["true"], ...(wrong as object) } }),
      () => fixture.client.createTask({ body: { label: "x", origin: { channel: "nobody" } } }),
      () => fixture.client.createTask({ body: {} }),
      () => fixture.client.createTask({ body: { label: "x", key: "a\0b" } }),
      () =>
        fixture.client.createTask({
          body: { label: "x", origin: { ...userOrigin, address: "\ud800" } },
        }),
      () => shown("a\0b"),
      async () => fixture.client.taskProgress({ params: { id: await aBackgroundRun() } }),
    ])
      expect(await errorOf(asked())).toMatchObject({ code: "BAD_INPUT" });
    const nobody = { origin: { channel: "nobody" } };
    const sessions = (await fixture.client.acpList()).sessions.length;
    for (const asked of [
      () => fixture.client.exec({ body: { argv: ["true"], ...nobody } }),
      () => fixture.client.acpSpawn({ body: { argv: shellAgent(), cwd: place, prompt: "x", ...nobody } }),
      () => fixture.client.runAgent({ params: { id: "codex" }, body: { prompt: "x", ...nobody } }),
    ])
      expect(await errorOf(asked())).toMatchObject({ code: "BAD_INPUT" });
    // Nothing was begun.
    expect((await fixture.client.acpList()).sessions).toHaveLength(sessions);
    const { client } = await boss("boss-7");
    expect(await errorOf(client.createTask({ body: { label: "x", origin: userOrigin } }))).toMatchObject({
      code: "BAD_INPUT",
    });
  });
});

async function aBackgroundRun(): Promise<string> {
  const { run } = await fixture.client.exec({ body: { argv: ["true"], background: true } });
  return run.runId;
}
