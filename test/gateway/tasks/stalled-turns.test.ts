import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { defaultAcpLimits } from "../../../src/acp/limits.js";
import { misbehavingAgent, scriptedAgent } from "../../support/agents/acp-fixture.js";
import { taskGateway, userOrigin } from "../../support/gateway/task-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const STALL_MS = 1_500;
const { stallMs: defaultStallMs } = defaultAcpLimits;
Object.assign(defaultAcpLimits, { stallMs: STALL_MS });
afterAll(() => void Object.assign(defaultAcpLimits, { stallMs: defaultStallMs }));

const { stage: fixture, place, userHeard, shown, ended, told } = taskGateway();

test("a silent turn is shown as stalled and its user is notified; the stall ends nothing, and the turn completes", async () => {
  const [watched, go] = [join(place, "watched"), join(place, "go")];
  const activity = { update: { sessionUpdate: "current_mode_update", currentModeId: "think" } };
  const { session, turn } = await fixture.client.acpSpawn({
    body: {
      ...{ argv: scriptedAgent, cwd: place, key: "thinker", background: true, origin: userOrigin },
      prompt: JSON.stringify([{ wait: watched }, activity, { wait: go }, { say: "done" }]),
    },
  });
  const id = turn?.turnId ?? "";
  await waitFor("it runs", async () => (await shown(id)).task.status === "running");
  // After the start, so that the notice of the start does not delay that of the stall.
  await fixture.client.notifyTask({ params: { id }, body: { policy: "state_changes" } });
  // Ends a stall that began before the policy was set, and of which no notification is sent.
  writeFileSync(watched, "");
  await waitFor("the user is told", () => userHeard().some(({ text }) => text.includes("no progress")));
  await waitFor("the task is stalled", async () => (await shown(id)).task.stalledAt !== null);
  const { session: row, turns } = await fixture.client.acpShow({ params: { id: session.sessionId } });
  expect(row.state).toBe("ready");
  expect(turns).toMatchObject([{ turnId: id, state: "running", stalledAt: expect.any(Number) }]);
  const { task, events } = await shown(id);
  expect(events.map(({ type }) => type)).toContain("stalled");
  writeFileSync(go, "");
  expect(await ended(id)).toMatchObject({ status: "succeeded", summary: "done", stalledAt: null });
  await told(id, "delivered");
  const heard = userHeard().filter(({ taskId }) => taskId === task.taskId);
  // Further state messages within a minute wait, and are dropped at the end.
  expect(heard).toMatchObject([
    { type: "task.state", text: expect.stringContaining("no progress") },
    { type: "task.terminal", text: expect.stringContaining("succeeded") },
  ]);
  expect((await fixture.client.acpShow({ params: { id: session.sessionId } })).session.runId).toBe(row.runId);
  await fixture.client.acpClose({ params: { id: session.sessionId } });
});

test("a turn with a limit without output ends at it: it failed, and its task timed out", async () => {
  const { session, turn } = await fixture.client.acpSpawn({
    body: {
      ...{ argv: misbehavingAgent("never-prompt"), cwd: place, key: "limited", background: true },
      ...{ prompt: "go", noOutputTimeoutMs: 1_000 },
    },
  });
  const id = turn?.turnId ?? "";
  expect(await ended(id)).toMatchObject({
    status: "timed_out",
    error: expect.stringContaining("sent nothing"),
  });
  const { turns } = await fixture.client.acpShow({ params: { id: session.sessionId } });
  expect(turns).toMatchObject([
    { outcome: "failed", noOutputTimeoutMs: 1_000, problem: { code: "ACP_TIMEOUT" } },
  ]);
  await fixture.client.acpClose({ params: { id: session.sessionId } });
});
