import { expect, test } from "vitest";
import {
  expectEnd,
  fixtureCommand,
  GRACE_MS,
  readTreePids,
  OsFixture,
} from "../system/os-matrix/os-fixture.js";

test("manual-cancel: the tree goes, and it is on record who asked", async () => {
  await using context = await OsFixture.open();
  const supervisor = await context.supervisor();
  const run = await supervisor.spawn(
    { io: "pipe", argv: fixtureCommand("tree", "1") },
    { graceMs: GRACE_MS },
  );
  const pids = await readTreePids(run, 2);
  await run.cancel({ actor: "test:me" });
  // Once more is no new reason.
  await run.cancel({ actor: "test:other", reason: "shutdown" });
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "test:me" });
  await expectEnd(supervisor, record, pids);
  expect(context.problems).toEqual([]);
});
