import { expect, test } from "vitest";
import { checkEnd, fixture, graceMs, members, Stage } from "./stage.js";

test("overall-timeout: the tree goes when its time is over", async () => {
  await using stage = await Stage.open();
  const supervisor = await stage.supervisor();
  const options = { graceMs, timeoutMs: 1_500 };
  const run = await supervisor.spawn({ io: "pipe", argv: fixture("tree", "1") }, options);
  const pids = await members(run, 2);
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "overall-timeout", actor: "deadline" });
  expect((record.endedAt ?? 0) - (record.startedAt ?? 0)).toBeGreaterThanOrEqual(1_400);
  await checkEnd(supervisor, record, pids);
  expect(stage.problems).toEqual([]);
});
