import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { taskGateway } from "../../support/gateway/task-gateway.js";
import { shellCommand } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const { stage: fixture, place, shown, ended, told, boss } = taskGateway();

describe("a session's background work", () => {
  test("by a one-shot agent is a task of its own session, with the agent's answer as its result", async () => {
    const parent = await boss("boss-4");
    const gate = join(place, "agent-gate");
    const environment = { PATH: process.env["PATH"] ?? "", GATE: gate };
    const asked = await parent.client.runAgent({
      params: { id: "codex" },
      body: { prompt: "wait", background: true, environment, notify: "state_changes" },
    });
    const { task } = await shown(asked.run.runId, parent.client);
    expect(task).toMatchObject({
      runtime: "subagent",
      status: "running",
      ownerSessionId: parent.id,
      childSessionId: asked.session.id,
      agentId: "codex",
      text: "wait",
    });
    await waitFor("it was heard of", async () => {
      const { startedAt, lastEventAt } = (await shown(asked.run.runId)).task;
      return startedAt !== null && lastEventAt > startedAt;
    });
    writeFileSync(gate, "");
    const done = { status: "succeeded", summary: "done", progress: null };
    expect(await ended(asked.run.runId)).toMatchObject(done);
    await told(asked.run.runId, "session_queued");
    // Output before the answer is not part of the notification.
    const texts = (await shown(asked.run.runId)).messages.map(({ text }) => text);
    expect(texts.at(-1)).toBe("Task “wait” succeeded: done");
    expect(texts.join()).not.toContain("working");
    const failed = await parent.client.runAgent({ params: { id: "codex" }, body: { prompt: "quiet" } });
    expect(await ended(failed.run.runId)).toMatchObject({
      status: "failed",
      error: "the model said no",
      delivery: "not_applicable",
    });
    const stumbled = await parent.client.runAgent({
      params: { id: "codex" },
      body: { prompt: "stumble", background: true },
    });
    const { runId } = stumbled.run;
    expect(await ended(runId)).toMatchObject({ status: "failed", summary: null });
    await told(runId, "session_queued");
    const { messages } = await shown(runId);
    expect(messages.map(({ text }) => text)).toEqual([
      "Task “stumble” failed: it exited with code 3: the model said no",
    ]);
    // It is not forgotten: the session has it.
    expect((await fixture.client.agentResult({ params: { runId } })).result).toMatchObject({
      error: "it exited with code 3: the model said no",
      text: "working",
    });
    // The format has no error field: all output is the answer.
    const chatty = await parent.client.runAgent({ params: { id: "text" }, body: { prompt: "fail" } });
    expect(await ended(chatty.run.runId)).toMatchObject({
      status: "failed",
      error: "it exited with code 3",
      summary: null,
    });
  });

  test("of a one-shot agent is in that agent's next prompt, and delivered when it has answered", async () => {
    const first = await fixture.client.runAgent({
      params: { id: "codex" },
      body: { prompt: "hello" },
    });
    const { key, id } = first.session;
    const self = fixture.as((await fixture.client.openSession({ body: { key } })).token);
    const { run } = await self.exec({
      body: { ...shellCommand("echo built"), background: true, notify: "done_only" },
    });
    const { task } = await shown(run.runId);
    await told(task.taskId, "session_queued");
    const body = { prompt: "and now?", resume: id };
    const { result } = await fixture.client.runAgent({ params: { id: "codex" }, body });
    expect(result?.text).toContain(
      `: Notice from Holdfast, not from a person:\n> Task “${task.label}” succeeded: built\n\nand now?`,
    );
    await told(task.taskId, "delivered");
    const again = await fixture.client.runAgent({ params: { id: "codex" }, body });
    expect(again.result?.text).not.toContain("Notice");
  });
});
