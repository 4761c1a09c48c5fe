import { expect, test } from "vitest";
import { BatchedInspection } from "../../../src/anchor/inspect/batched-inspection.js";
import { goneEvidence } from "../../../src/anchor/inspect/processes.js";
import { deferred } from "../../../src/async/deferred.js";

/** An inspection that waits until the test opens the gate, and fails for the pid 13. */
function waitingInspection() {
  const asked: (readonly number[])[] = [];
  const gate = deferred<void>();
  const batched = new BatchedInspection(async (wanted) => {
    asked.push(wanted.map((each) => (typeof each === "number" ? each : each.pid)));
    await gate.promise;
    if (wanted.includes(13)) throw new Error("pid 13 cannot be inspected");
    return wanted.map(goneEvidence);
  });
  return { asked, gate, batched };
}

test("a thousand callers at the same time start three inspections, and each gets its own processes", async () => {
  const { asked, gate, batched } = waitingInspection();
  const answers = Array.from({ length: 1_000 }, (_, at) => batched.inspect([at + 1_000, at + 5_000]));
  gate.resolve();
  for (const [at, evidence] of (await Promise.all(answers)).entries())
    expect(evidence.map(({ identity }) => identity.pid)).toEqual([at + 1_000, at + 5_000]);
  expect(asked.map((pids) => pids.length)).toEqual([2, 2, 1_996]);
});

test("no caller gets an answer of an inspection that began before its call", async () => {
  const { asked, gate, batched } = waitingInspection();
  const early = [batched.inspect([1]), batched.inspect([2])];
  const late = batched.inspect([1]);
  expect(asked).toEqual([[1], [2]]);
  gate.resolve();
  await Promise.all([...early, late]);
  expect(asked).toEqual([[1], [2], [1]]);
});

test("the failure of one query concerns only its caller", async () => {
  const { gate, batched } = waitingInspection();
  const [, , good, bad] = [
    batched.inspect([1]),
    batched.inspect([2]),
    batched.inspect([3]),
    batched.inspect([13]),
  ];
  gate.resolve();
  await expect(bad).rejects.toThrow("pid 13");
  expect((await good)?.[0]?.identity.pid).toBe(3);
});
