import { expect, test } from "vitest";
import { ThrottledCheck } from "../../src/async/throttled-check.js";
import { deferred } from "../../src/async/deferred.js";

const LONG_MS = 3_600_000;

test("a check that finds nothing is throttled until it is woken, and one that finds something or fails is not", async () => {
  const answers: (boolean | Error)[] = [true, new Error("the store is away"), false, true, false];
  let asked = 0;
  const check = new ThrottledCheck(LONG_MS, async () => {
    const answer = answers[asked++];
    if (answer instanceof Error) throw answer;
    return answer ?? expect.fail("asked too often");
  });
  await check.run();
  await expect(check.run()).rejects.toThrow("the store is away");
  for (let times = 0; times < 3; times += 1) await check.run();
  expect(asked).toBe(3);
  check.wake();
  for (let times = 0; times < 3; times += 1) await check.run();
  expect(asked).toBe(5);
});

test("a check that is woken while it is made is not throttled afterwards", async () => {
  const gate = deferred<boolean>();
  let asked = 0;
  const check = new ThrottledCheck(LONG_MS, () => {
    asked += 1;
    return gate.promise;
  });
  const running = check.run();
  check.wake();
  gate.resolve(false);
  await running;
  await check.run();
  expect(asked).toBe(2);
});

test("a check that rests is made again after its time", async () => {
  let asked = 0;
  const check = new ThrottledCheck(0, async () => {
    asked += 1;
    return false;
  });
  await check.run();
  await check.run();
  expect(asked).toBe(2);
});
