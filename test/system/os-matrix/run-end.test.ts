import { expect, test } from "vitest";
import { expectEnd, fixtureCommand, OsFixture, readFinalOutput } from "./os-fixture.js";

test.for([0, 7])("direct-exit: a command that ends by itself with %i", async (code) => {
  await using context = await OsFixture.open();
  const supervisor = await context.supervisor();
  const run = await supervisor.spawn({ io: "pipe", argv: fixtureCommand("exit", String(code)) });
  const root = run.rootPid ?? 0;
  const { stdout, stderr } = await readFinalOutput(run);
  expect([stdout.trim(), stderr.trim()]).toEqual(["out", "err"]);
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "exit", actor: "", code, signal: null });
  expect(record.residue).toEqual([]);
  await expectEnd(supervisor, record, [root]);
  expect(context.problems).toEqual([]);
});
