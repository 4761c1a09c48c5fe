import { expect, test } from "vitest";
import { taskOf, whomToTell } from "../../src/gateway/work/whom.js";
import { newSession } from "../store/session-samples.js";
import { taskHouse } from "../tasks/house.js";

test("what a session asks for is a part of what it is at, however much it has asked for since", async () => {
  await using house = await taskHouse();
  const { session } = await house.store.createSession(newSession());
  const requester = { kind: "session", actor: "session", session } as const;
  const asks = { requester, said: {}, mode: "run", parentSessionId: session.id } as const;
  expect(await taskOf(house.store, requester)).toBeNull();
  const own = await house.begun({ childSessionId: session.id });
  house.setNow(own.createdAt + 1);
  for (let n = 0; n < 101; n += 1) await house.begun(whomToTell(asks));
  expect(await taskOf(house.store, requester)).toBe(own.taskId);
  expect(await taskOf(house.store, { kind: "operator", actor: "operator" })).toBeNull();
});

test("of several turns it is at the one that goes on, or else at the first of those that wait", async () => {
  await using house = await taskHouse();
  const { session } = await house.store.createSession(newSession());
  const requester = { kind: "session", actor: "session", session } as const;
  const now = Date.now();
  const turn = async (at: number): Promise<string> => {
    house.setNow(now + at);
    const turns = { runtime: "acp", key: null, text: "turn", childSessionId: session.id } as const;
    return (await house.tasks.create(turns)).task.taskId;
  };
  const [first, second] = [await turn(1), await turn(2)];
  expect(await taskOf(house.store, requester)).toBe(first);
  await house.tasks.tell(second, { type: "start", at: now + 3 });
  await turn(4);
  expect(await taskOf(house.store, requester)).toBe(second);
});
