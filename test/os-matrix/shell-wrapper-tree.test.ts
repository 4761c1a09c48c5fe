import { expect, test } from "vitest";
import {
  expectEnd,
  fixtureCommand,
  GRACE_MS,
  readTreePids,
  OsFixture,
} from "../system/os-matrix/os-fixture.js";

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
