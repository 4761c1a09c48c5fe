import { describe, expect, test } from "vitest";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import { userOrigin, taskGateway } from "../../support/gateway/task-gateway.js";

const { stage: fixture, place, userHeard, shown, told, boss } = taskGateway();

describe("the notification targets of work that the operator starts", () => {
  const agent = { argv: shellAgent(), cwd: place };
  const heardOf = (taskId: string): number => userHeard().filter((each) => each.taskId === taskId).length;
  const newest = async (): Promise<string> => {
    const [task] = (await fixture.client.listTasks({ query: { limit: 1 } })).tasks;
    return task?.taskId ?? "";
  };

  test("a user alone with an agent: the user's chat", async () => {
    await fixture.client.acpSpawn({
      body: { ...agent, key: "alone", prompt: "echo hi", background: true, origin: userOrigin },
    });
    const id = await newest();
    await told(id, "delivered");
    expect(heardOf(id)).toBe(1);
    // A foreground conversation has no task and no notification.
    await fixture.client.acpPrompt({ params: { id: "alone" }, body: { text: "echo and you?" } });
    expect(await newest()).toBe(id);
  });

  test("a group without a session: the group", async () => {
    const group = { ...userOrigin, chat: "group", address: "-100/7" } as const;
    const { run } = await fixture.client.exec({ body: { argv: ["true"], background: true, origin: group } });
    const { taskId, targets } = await told(run.runId, "delivered");
    expect(targets).toEqual([{ kind: "channel", channel: "user", address: "-100/7" }]);
    expect(heardOf(taskId)).toBe(1);
  });

  test("a group with a session, and a child in the background: the session, and the chat at the end", async () => {
    const parent = await boss("boss-10");
    for (const body of [
      { ...agent, key: "grouped", prompt: "echo 1", origin: { ...userOrigin, chat: "group" as const } },
      { ...agent, mode: "run" as const, prompt: "echo 2", origin: userOrigin },
    ]) {
      await fixture.client.acpSpawn({
        body: { ...body, parentSessionKey: "boss-10", background: true },
      });
      const id = await newest();
      expect((await shown(id)).task.targets).toEqual([
        { kind: "session", sessionId: parent.id },
        { kind: "channel", channel: "user", address: null, on: "end" },
      ]);
      await told(id, "session_queued");
      expect(heardOf(id)).toBe(1);
    }
  });

  test("a session that was closed meanwhile: none, and the audit reports it", async () => {
    const parent = await boss("boss-11");
    const { run } = await fixture.client.exec({
      body: { argv: ["sleep", "1000"], background: true, sessionKey: "boss-11", notify: "done_only" },
    });
    expect((await shown(run.runId)).task.ownerSessionId).toBe(parent.id);
    await fixture.client.acpClose({ params: { id: parent.id } });
    await fixture.client.cancelTask({ params: { id: run.runId } });
    await told(run.runId, "parent_missing");
    expect((await fixture.client.auditTasks()).findings).toMatchObject(
      expect.arrayContaining([expect.objectContaining({ code: "delivery_failed" })]),
    );
  });
});
