import { expect, test } from "vitest";
import {
  expectEnd,
  fixtureCommand,
  GRACE_MS,
  readTreePids,
  OsFixture,
} from "../system/os-matrix/os-fixture.js";

test("overall-timeout: the tree goes when its time is over", async () => {
  await using context = await OsFixture.open();
  const supervisor = await context.supervisor();
  const options = { graceMs: GRACE_MS, timeoutMs: 1_500 };
  const run = await supervisor.spawn({ io: "pipe", argv: fixtureCommand("tree", "1") }, options);
  const pids = await readTreePids(run, 2);
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "overall-timeout", actor: "deadline" });
  expect((record.endedAt ?? 0) - (record.startedAt ?? 0)).toBeGreaterThanOrEqual(1_400);
  await expectEnd(supervisor, record, pids);
  expect(context.problems).toEqual([]);
});
