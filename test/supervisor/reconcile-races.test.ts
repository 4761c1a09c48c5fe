import { expect, test } from "vitest";
import { fakeWorld, start, turn } from "./fake-supervisor.js";

test("a record that is just being inserted is not taken for one that was left behind", async () => {
  const world = fakeWorld();
  const { store, supervisor } = world;
  const insertRun = store.insertRun.bind(store);
  let answer = (): void => undefined;
  // Committed, but its answer is still on its way.
  store.insertRun = async (...run) => {
    const lease = await insertRun(...run);
    await new Promise<void>((resolve) => (answer = resolve));
    return lease;
  };
  const starting = start(world);
  await turn();
  expect((await supervisor.reconcile()).decisions).toEqual([]);
  answer();
  expect((await starting).state).toBe("running");
  expect([...store.runs.values()]).toMatchObject([{ state: "running", leaseEpoch: 1 }]);
});
