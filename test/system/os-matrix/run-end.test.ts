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

/** The system's own shell, which stays above what it runs. */
function underShell(argv: readonly string[]): readonly string[] {
  const line = argv.map((word) => `"${word}"`).join(" ");
  if (process.platform === "win32") return ["cmd.exe", "/d", "/s", "/c", `"${line} & rem"`];
  return ["/bin/sh", "-c", `${line}; exit $?`];
}

test("shell-wrapper-tree: shell, child, grandchild and great-grandchild go with a cancel", async () => {
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
