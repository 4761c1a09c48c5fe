import { expect, test } from "vitest";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import { taskGateway } from "../../support/gateway/task-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const {
  stage: fixture,
  place,
  userHeard,
  shown,
  told,
  boss,
} = taskGateway('[notify]\nchannel = "user"\naddress = "7"\n');

const heardOf = (taskId: string): number => userHeard().filter((each) => each.taskId === taskId).length;
const channel = { kind: "channel", channel: "user", address: "7" } as const;

test("work of the operator in the background notifies the default channel, unless the request says otherwise", async () => {
  const body = { argv: ["true"], background: true };
  const { run } = await fixture.client.exec({ body });
  const { taskId, targets } = await told(run.runId, "delivered");
  expect(targets).toEqual([channel]);
  expect(heardOf(taskId)).toBe(1);
  const silent = await fixture.client.exec({ body: { ...body, notify: "silent" } });
  await told(silent.run.runId, "not_applicable");
  const elsewhere = await fixture.client.exec({
    body: { ...body, origin: { channel: "user", address: "9" } },
  });
  expect((await told(elsewhere.run.runId, "delivered")).targets).toEqual([{ ...channel, address: "9" }]);
});

test("a background child of a session whose chat is unknown notifies the default channel of its end", async () => {
  const parent = await boss("default-1");
  const body = { argv: shellAgent(), cwd: place, mode: "run", prompt: "echo hi", background: true } as const;
  const { session } = await parent.client.acpSpawn({ body });
  const { task } = await shown(session.sessionId);
  expect(task.targets).toEqual([
    { kind: "session", sessionId: parent.id },
    { ...channel, on: "end" },
  ]);
  await waitFor("the default channel is notified", () => heardOf(task.taskId) === 1);
});
