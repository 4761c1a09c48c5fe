import { expect, test } from "vitest";
import { checkEnd, fixture, Stage, textOf } from "./stage.js";

test.for([0, 7])("direct-exit: a command that ends by itself with %i", async (code) => {
  await using stage = await Stage.open();
  const supervisor = await stage.supervisor();
  const run = await supervisor.spawn({ io: "pipe", argv: fixture("exit", String(code)) });
  const root = run.rootPid ?? 0;
  const { stdout, stderr } = await textOf(run);
  expect([stdout.trim(), stderr.trim()]).toEqual(["out", "err"]);
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "exit", actor: "", code, signal: null });
  expect(record.residue).toEqual([]);
  await checkEnd(supervisor, record, [root]);
  expect(stage.problems).toEqual([]);
});
