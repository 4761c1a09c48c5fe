import { expect, test } from "vitest";
import {
  expectEnd,
  fixtureCommand,
  GRACE_MS,
  OsFixture,
  readFinalOutput,
  readTreePids,
} from "./os-fixture.js";

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

test("manual-cancel: the tree ends, and the record has the actor", async () => {
  await using context = await OsFixture.open();
  const supervisor = await context.supervisor();
  const run = await supervisor.spawn(
    { io: "pipe", argv: fixtureCommand("tree", "1") },
    { graceMs: GRACE_MS },
  );
  const pids = await readTreePids(run, 2);
  await run.cancel({ actor: "test:me" });
  // A second cancel does not change the reason.
  await run.cancel({ actor: "test:other", reason: "shutdown" });
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "test:me" });
  await expectEnd(supervisor, record, pids);
  expect(context.problems).toEqual([]);
});

test.for([
  ["no-output-timeout", { noOutputTimeoutMs: 1_500 }],
  ["overall-timeout", { timeoutMs: 1_500 }],
] as const)("%s: the tree ends at its deadline", async ([reason, deadline]) => {
  await using context = await OsFixture.open();
  const supervisor = await context.supervisor();
  const options = { graceMs: GRACE_MS, ...deadline };
  const run = await supervisor.spawn({ io: "pipe", argv: fixtureCommand("tree", "1") }, options);
  const pids = await readTreePids(run, 2);
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason, actor: "deadline" });
  expect((record.endedAt ?? 0) - (record.startedAt ?? 0)).toBeGreaterThanOrEqual(1_400);
  await expectEnd(supervisor, record, pids);
  expect(context.problems).toEqual([]);
});

/** The shell of the system, as the parent of the command. */
function underShell(argv: readonly string[]): readonly string[] {
  const line = argv.map((word) => `"${word}"`).join(" ");
  if (process.platform === "win32") return ["cmd.exe", "/d", "/s", "/c", `"${line} & rem"`];
  return ["/bin/sh", "-c", `${line}; exit $?`];
}

test("shell-wrapper-tree: a cancel ends shell, child, grandchild and great-grandchild", async () => {
  await using context = await OsFixture.open();
  const supervisor = await context.supervisor();
  const run = await supervisor.spawn(
    { io: "pipe", argv: underShell(fixtureCommand("tree", "2")) },
    { graceMs: GRACE_MS },
  );
  const root = run.rootPid ?? 0;
  const pids = await readTreePids(run, 3);
  expect(pids).not.toContain(root);
  await run.cancel({ actor: "test:me" });
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "test:me" });
  await expectEnd(supervisor, record, [root, ...pids]);
  expect(context.problems).toEqual([]);
});
