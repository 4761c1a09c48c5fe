import { expect, test } from "vitest";
import { checkEnd, fixture, graceMs, members, Stage } from "./stage.js";

/** The system's own shell, which stays above what it runs. */
function underShell(argv: readonly string[]): readonly string[] {
  const line = argv.map((word) => `"${word}"`).join(" ");
  if (process.platform === "win32") return ["cmd.exe", "/d", "/s", "/c", `"${line} & rem"`];
  return ["/bin/sh", "-c", `${line}; exit $?`];
}

test("shell-wrapper-tree: shell, child, grandchild and great-grandchild go with a cancel", async () => {
  await using stage = await Stage.open();
  const supervisor = await stage.supervisor();
  const run = await supervisor.spawn({ io: "pipe", argv: underShell(fixture("tree", "2")) }, { graceMs });
  const root = run.rootPid ?? 0;
  const pids = await members(run, 3);
  expect(pids).not.toContain(root);
  await run.cancel({ actor: "test:me" });
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "test:me" });
  await checkEnd(supervisor, record, [root, ...pids]);
  expect(stage.problems).toEqual([]);
});
