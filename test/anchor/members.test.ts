import { expect, test } from "vitest";
import type { ProcessEvidence } from "../../src/anchor/host.js";
import { membersOfRun } from "../../src/anchor/members.js";
import { sampleRunRecord } from "../cli/sample-record.js";

const anchorIdentity = { pid: 100, startTime: 5, uniqueId: "1" };
const root = (pid: number) => ({ pid, startTime: pid, uniqueId: null });
const task = sampleRunRecord({ runId: "run_task", anchor: anchorIdentity, root: root(101), createdAt: 2 });
const service = sampleRunRecord({
  runId: "run_service",
  anchor: anchorIdentity,
  root: root(102),
  createdAt: 3,
});

const below = [
  [101, 100],
  [102, 101],
  [103, 102],
  // Its parent is gone.
  [104, 100],
].map(([pid, parentPid]) => ({
  identity: root(pid ?? 0),
  parentPid,
})) as unknown as ProcessEvidence["descendants"];

const pids = (of: typeof task, records: readonly (typeof task)[]): number[] =>
  membersOfRun(of, records, below).map(({ identity }) => identity.pid);

test("of two runs with one anchor each has its own, and the first whoever lost his parent", () => {
  expect(pids(task, [service, task])).toEqual([101, 104]);
  expect(pids(service, [service, task])).toEqual([102, 103]);
});

test.for([
  ["boot", { bootId: "another" }],
  ["pid namespace", { pidNamespace: "pid:[2]" }],
  ["anchor that had its pid before", { anchor: { ...anchorIdentity, startTime: 4, uniqueId: "0" } }],
] as const)("an older run of another %s takes nobody away", ([, elsewhere]) => {
  const other = sampleRunRecord({
    runId: "run_other",
    anchor: anchorIdentity,
    root: root(101),
    createdAt: 1,
    ...elsewhere,
  });
  expect(pids(task, [other, task])).toEqual([101, 102, 103, 104]);
  expect(pids(task, [other, service, task])).toEqual([101, 104]);
});
