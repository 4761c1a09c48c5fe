import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { contract } from "../../src/api/contract.js";
import { pollRun } from "../../src/queries/poll.js";
import { fakeSupervisor, spawnFakeRun, nextTurn } from "../support/supervisor/fake-supervisor.js";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

test("a poll of a silent run leaves no listeners behind", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  const record = (await world.supervisor.getRun(run.runId)) ?? expect.fail("it has no record");
  const waits: WeakRef<Promise<void>>[] = [];
  const changed = run.changed.bind(run);
  run.changed = (...words) => {
    const wait = changed(...words);
    waits.push(new WeakRef(wait));
    return wait;
  };
  const gone = new AbortController().signal;
  const query = contract.poll.query.parse({ waitMs: 5 });
  for (let count = 0; count < 3; count++)
    await pollRun(world.supervisor, record, query, { disconnected: gone, enqueue: (work) => work() });
  await nextTurn();
  collectGarbage();
  expect(waits.map((wait) => wait.deref())).toEqual([undefined, undefined, undefined]);
});
