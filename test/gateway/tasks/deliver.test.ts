import { describe, expect, test } from "vitest";
import type { GatewayClient } from "../../../src/api/client.js";
import type { DeliverMode } from "../../../src/model/task.js";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import { taskGateway, userOrigin } from "../../support/gateway/task-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const { stage: fixture, place, userHeard, shown, told, ended, boss } = taskGateway();

const heardOf = (taskId: string): string[] =>
  userHeard()
    .filter((each) => each.taskId === taskId)
    .map(({ text }) => text);

/** The id of the task of a background child that says `text`. */
async function startChild(client: GatewayClient, text: string, deliver?: DeliverMode): Promise<string> {
  const { session } = await client.acpSpawn({
    body: {
      ...{ argv: shellAgent(), cwd: place, mode: "run", prompt: `echo ${text}`, background: true },
      ...(deliver === undefined ? {} : { deliver }),
    },
  });
  return (await shown(session.sessionId)).task.taskId;
}

/** A session whose user talks to it in the chat `address`. */
async function bossOf(key: string, address: string) {
  const parent = await boss(key);
  const origin = { ...userOrigin, chat: "group" as const, address };
  await fixture.client.acpPrompt({
    params: { id: parent.id },
    body: { text: "hello", wait: true, origin },
  });
  return { ...parent, origin };
}

const inbox = async (sessionId: string): Promise<string[]> =>
  (await fixture.client.sessionInbox({ params: { id: sessionId } })).messages.map(({ text }) => text);

describe("the end of a background child", () => {
  test("reaches the chat that its parent was asked in, once, and its parent gets a notice", async () => {
    const parent = await bossOf("deliver-1", "-100/1");
    const id = await startChild(parent.client, "to the user");
    await waitFor("the user is notified", () => heardOf(id).length > 0);
    const { task, messages } = await shown(id);
    expect(task).toMatchObject({ origin: parent.origin, status: "succeeded" });
    expect(task.targets).toEqual([
      { kind: "session", sessionId: parent.id },
      { kind: "channel", channel: "user", address: "-100/1", on: "end" },
    ]);
    expect(heardOf(id)).toEqual([expect.stringMatching(/ succeeded: to the user$/)]);
    expect(messages.map(({ target }) => target.kind).toSorted()).toEqual(["channel", "session"]);
    await told(id, "session_queued");
    expect(await inbox(parent.id)).toEqual([
      expect.stringMatching(/ succeeded: to the user\n\(The user is notified of this through user\.\)$/),
    ]);
  });

  test("reaches the chat also from the child of a child", async () => {
    const parent = await bossOf("deliver-2", "-100/2");
    const body = {
      argv: shellAgent("echo"),
      cwd: place,
      key: "deliver-2-child",
      prompt: "hi",
      background: true,
    };
    const { session } = await parent.client.acpSpawn({ body });
    const { token } = await fixture.client.openSession({ body: { key: session.key } });
    await ended(session.sessionId);
    const id = await startChild(fixture.as(token), "from below");
    await waitFor("the user is notified", () => heardOf(id).length > 0);
    expect((await shown(id)).task.origin).toEqual(parent.origin);
  });

  test("stays with the session if the task says so", async () => {
    const parent = await bossOf("deliver-3", "-100/3");
    const id = await startChild(parent.client, "to the session", "session");
    const { targets } = await told(id, "session_queued");
    expect(targets).toEqual([{ kind: "session", sessionId: parent.id }]);
    expect(heardOf(id)).toEqual([]);
  });

  test("wakes the parent's agent, whose answer is the one message in the chat", async () => {
    const parent = await bossOf("deliver-4", "-100/4");
    const id = await startChild(parent.client, "for the agent", "wake");
    await told(id, "delivered");
    const woken = (await fixture.client.listTasks({ query: { session: parent.id } })).tasks.find(
      ({ parentTaskId }) => parentTaskId === id,
    );
    const wokenId = woken?.taskId ?? expect.fail("the agent was not woken");
    await told(wokenId, "delivered");
    expect((await shown(wokenId)).task).toMatchObject({
      ...{ kind: "wake", childSessionId: parent.id, status: "succeeded", origin: parent.origin },
      targets: [{ kind: "channel", channel: "user", address: "-100/4" }],
    });
    expect(heardOf(id)).toEqual([]);
    expect(heardOf(wokenId)).toEqual([expect.stringMatching(/for the agent/)]);
  });

  test("reaches the chat also if the agent that it wakes does not answer", async () => {
    const parent = await bossOf("deliver-6", "-100/6");
    const id = await startChild(parent.client, "DIE of it", "wake");
    let wokenId = "";
    await waitFor("the agent is woken", async () => {
      const { tasks } = await fixture.client.listTasks({ query: { session: parent.id } });
      wokenId = tasks.find(({ parentTaskId }) => parentTaskId === id)?.taskId ?? "";
      return wokenId !== "";
    });
    await told(wokenId, "delivered");
    expect((await shown(wokenId)).task.status).toBe("failed");
    expect(heardOf(wokenId)).toEqual([
      expect.stringMatching(/^Task “result of .* failed: .*\nTask “echo DIE of it” succeeded: DIE of it$/),
    ]);
  });

  test("reaches the chat if the parent has no agent to wake", async () => {
    const { session } = await fixture.client.openSession({
      body: { key: "deliver-5", execRules: [{ effect: "allow" }] },
    });
    const body = { argv: ["true"], background: true, sessionKey: "deliver-5", origin: userOrigin };
    const { run } = await fixture.client.exec({ body: { ...body, notify: "done_only", deliver: "wake" } });
    const { taskId } = await ended(run.runId);
    await waitFor("the user is notified", () => heardOf(taskId).length > 0);
    await told(taskId, "session_queued");
    expect(await inbox(session.id)).toHaveLength(1);
    expect(heardOf(taskId)).toHaveLength(1);
  });
});

test("a value of deliver that does not exist is refused, and nothing is started", async () => {
  const body = { argv: ["true"], background: true, deliver: "everyone" as never };
  await expect(fixture.client.exec({ body })).rejects.toThrow(/user, session, wake/);
});
