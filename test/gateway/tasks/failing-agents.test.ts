import { afterAll, expect, test } from "vitest";
import { misbehavingAgent } from "../../support/agents/acp-fixture.js";
import { taskGateway, userOrigin } from "../../support/gateway/task-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const { stage: fixture, place, userHeard, ended, told } = taskGateway();

// A line that is not a frame is a problem of the agent, not of the gateway.
afterAll(() => {
  const others = fixture.problems.filter((each) => !each.includes("is not a frame"));
  (fixture.problems as string[]).splice(0, Infinity, ...others);
});

async function startTurn(mode: string) {
  const { session, turn } = await fixture.client.acpSpawn({
    body: {
      ...{ argv: misbehavingAgent(mode), cwd: place, key: mode, prompt: "go" },
      ...{ background: true, wait: false, origin: userOrigin },
    },
  });
  return { session, turnId: turn?.turnId ?? expect.fail("there is no turn") };
}

async function endedTurn(sessionId: string, turnId: string) {
  const { turns } = await fixture.client.acpHistory({ params: { id: sessionId }, query: { turn: turnId } });
  return turns[0];
}

test.each([
  ["answers-rubbish", "failed", "lines that are not frames"],
  ["floods-non-json", "failed", "lines that are not frames"],
  ["answers-without-reason", "failed", "no stopReason"],
  ["closes-stdout", "failed", "its output ended"],
  ["closes-stdout-and-exits", "interrupted", "its output ended"],
  ["giant-frame", "failed", "frame-too-large"],
])("%s: the turn is %s, and the task failed for that reason", async (mode, outcome, why) => {
  const { session, turnId } = await startTurn(mode);
  const task = await ended(turnId);
  expect(task).toMatchObject({ status: "failed", outcome: null });
  expect(task.error).toContain(why);
  expect(await endedTurn(session.sessionId, turnId)).toMatchObject({ outcome, cancel: null });
  await told(task.taskId, "delivered");
  const messages = userHeard().filter(({ taskId }) => taskId === task.taskId);
  expect(messages).toMatchObject([{ status: "failed", text: expect.stringContaining("failed") }]);
  await fixture.client.acpClose({ params: { id: session.sessionId } });
});

test("an agent that answers SIGTERM from outside with cancelled did not cancel its turn", async () => {
  const mode = "answers-cancelled-on-term";
  const { session, turnId } = await startTurn(mode);
  const runId = session.runId ?? "";
  await waitFor("it handles the signal", async () => {
    const { updates } = await fixture.client.acpWatch({ params: { id: session.sessionId }, query: {} });
    return JSON.stringify(updates).includes("ready for SIGTERM");
  });
  const { root } = await fixture.client.getRun({ params: { runId } });
  const terminate = (): void => {
    // oxlint-disable-next-line no-restricted-properties -- the agent that this test started, by the number its run has
    process.kill(root?.pid ?? expect.fail("the agent has no process"), "SIGTERM");
  };
  terminate();
  // Its answer is read while it is alive; the second signal ends it.
  await waitFor("the turn has ended", async () => {
    return (await endedTurn(session.sessionId, turnId))?.state === "ended";
  });
  terminate();
  expect(await ended(turnId)).toMatchObject({ status: "failed" });
  expect(await endedTurn(session.sessionId, turnId)).toMatchObject({
    ...{ outcome: "interrupted", stopReason: "cancelled", cancel: null },
    problem: { message: expect.stringContaining("Holdfast did not cancel it") },
  });
  await fixture.client.acpClose({ params: { id: session.sessionId } });
});
