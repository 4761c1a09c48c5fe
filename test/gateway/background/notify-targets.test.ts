import { expect, test } from "vitest";
import { findCurrentTask, resolveTargets } from "../../../src/gateway/background/notify-targets.js";
import { newSession } from "../../support/store/session-samples.js";
import { openTaskRegistry } from "../../support/task-registry.js";

test("what a session asks for is a part of what it is at, however much it has asked for since", async () => {
  await using registry = await openTaskRegistry();
  const { session } = await registry.store.createSession(newSession());
  const requester = { kind: "session", actor: "session", session } as const;
  const asks = { requester, requested: {}, mode: "run", parentSessionId: session.id } as const;
  expect(await findCurrentTask(registry.store, requester)).toBeNull();
  const own = await registry.startTask({ childSessionId: session.id });
  registry.setNow(own.createdAt + 1);
  for (let n = 0; n < 101; n += 1) await registry.startTask(resolveTargets(asks));
  expect(await findCurrentTask(registry.store, requester)).toBe(own.taskId);
  expect(await findCurrentTask(registry.store, { kind: "operator", actor: "operator" })).toBeNull();
});

test("of several turns it is at the one that goes on, or else at the first of those that wait", async () => {
  await using registry = await openTaskRegistry();
  const { session } = await registry.store.createSession(newSession());
  const requester = { kind: "session", actor: "session", session } as const;
  const now = Date.now();
  const turn = async (at: number): Promise<string> => {
    registry.setNow(now + at);
    const turns = { runtime: "acp", key: null, text: "turn", childSessionId: session.id } as const;
    return (await registry.tasks.create(turns)).task.taskId;
  };
  const [first, second] = [await turn(1), await turn(2)];
  expect(await findCurrentTask(registry.store, requester)).toBe(first);
  await registry.tasks.apply(second, { type: "start", at: now + 3 });
  await turn(4);
  expect(await findCurrentTask(registry.store, requester)).toBe(second);
});
