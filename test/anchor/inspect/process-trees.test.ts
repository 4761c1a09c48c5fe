import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { findAnchorBinary } from "../../../src/anchor/binary.js";
import { inspectProcesses } from "../../../src/anchor/inspect/processes.js";
import { inspectTrees } from "../../../src/anchor/inspect/process-trees.js";

const anchor = findAnchorBinary();

test("processes and cgroups are answered together, each at its place", async () => {
  const child = spawn("sh", ["-c", "echo up; read line"], { stdio: ["pipe", "pipe", "inherit"] });
  onTestFinished(async () => {
    const left = once(child, "exit");
    child.kill("SIGKILL");
    await left;
  });
  await once(child.stdout, "data");
  const gone = { pid: 2 ** 23 + 1, startTime: 1, uniqueId: "7" };
  const [live] = await inspectProcesses(anchor, [child.pid ?? 0]);
  if (live === undefined) throw new Error("it was not inspected");
  const invalid = { path: "relative", inode: "1" };
  const absent = { path: "/holdfast-no-such-cgroup", inode: "1" };

  const both = await inspectTrees(anchor, [gone, live.identity], [invalid, absent]);

  expect(both.evidence.map(({ matches }) => matches)).toEqual([false, true]);
  expect(both.members).toEqual([null, null]);
  expect(both.states).toHaveLength(2);
  expect(both.states[0]).toBe("unknown");
  expect(both.states[1]).not.toBe("populated");
  expect(await inspectTrees(anchor, [], [])).toEqual({ evidence: [], members: [], states: [] });
});
