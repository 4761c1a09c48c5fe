import { expect, test } from "vitest";
import { runConcurrently } from "../../src/async/concurrency.js";
import { deferred } from "../../src/async/deferred.js";

test("after a failure nothing more is started, and the failure is reported when what was started has ended", async () => {
  const started: number[] = [];
  const gates = Array.from({ length: 5 }, () => deferred<number>());
  let ended = false;
  const running = runConcurrently(
    3,
    gates.map((gate, at) => () => {
      started.push(at);
      return gate.promise;
    }),
  ).finally(() => (ended = true));
  running.catch(() => undefined);
  gates[1]?.reject(new Error("the first failure"));
  gates[0]?.resolve(0);
  // Every reaction to these has run before a timer fires.
  await new Promise((resolve) => setTimeout(resolve));
  expect(started).toEqual([0, 1, 2]);
  expect(ended).toBe(false);
  gates[2]?.reject(new Error("a later failure"));
  await expect(running).rejects.toThrow("the first failure");
  expect(started).toEqual([0, 1, 2]);
});

test("all of the work is done, at most so many at a time", async () => {
  let atOnce = 0;
  let most = 0;
  const work = Array.from({ length: 20 }, (_, at) => async () => {
    atOnce += 1;
    most = Math.max(most, atOnce);
    await new Promise((resolve) => setImmediate(resolve));
    atOnce -= 1;
    return at;
  });
  expect((await runConcurrently(4, work)).toSorted((one, other) => one - other)).toEqual([...work.keys()]);
  expect(most).toBe(4);
});
