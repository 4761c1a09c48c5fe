import { expect, test } from "vitest";
import { checkEnd, fixture, graceMs, members, Stage } from "./stage.js";

test("manual-cancel: the tree goes, and it is on record who asked", async () => {
  await using stage = await Stage.open();
  const supervisor = await stage.supervisor();
  const run = await supervisor.spawn({ io: "pipe", argv: fixture("tree", "1") }, { graceMs });
  const pids = await members(run, 2);
  await run.cancel({ actor: "test:me" });
  // Once more is no new reason.
  await run.cancel({ actor: "test:other", reason: "shutdown" });
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "test:me" });
  await checkEnd(supervisor, record, pids);
  expect(stage.problems).toEqual([]);
});
