import { expect, test } from "vitest";
import { checkEnd, fixture, graceMs, members, Stage } from "./stage.js";

test("no-output-timeout: the tree goes when it has been silent for too long", async () => {
  await using stage = await Stage.open();
  const supervisor = await stage.supervisor();
  const options = { graceMs, noOutputTimeoutMs: 1_500 };
  const run = await supervisor.spawn({ io: "pipe", argv: fixture("tree", "1") }, options);
  const pids = await members(run, 2);
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "no-output-timeout", actor: "deadline" });
  await checkEnd(supervisor, record, pids);
  expect(stage.problems).toEqual([]);
});
