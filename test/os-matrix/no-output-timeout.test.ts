import { expect, test } from "vitest";
import {
  expectEnd,
  fixtureCommand,
  GRACE_MS,
  readTreePids,
  OsFixture,
} from "../system/os-matrix/os-fixture.js";

test("no-output-timeout: the tree goes when it has been silent for too long", async () => {
  await using context = await OsFixture.open();
  const supervisor = await context.supervisor();
  const options = { graceMs: GRACE_MS, noOutputTimeoutMs: 1_500 };
  const run = await supervisor.spawn({ io: "pipe", argv: fixtureCommand("tree", "1") }, options);
  const pids = await readTreePids(run, 2);
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "no-output-timeout", actor: "deadline" });
  await expectEnd(supervisor, record, pids);
  expect(context.problems).toEqual([]);
});
