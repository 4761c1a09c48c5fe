import { expect, test } from "vitest";
import { cgroupOf, toRunBoundary } from "../../../src/supervisor/run/recorded-identity.js";

test("the boundary of a job is its name, and no cgroup", () => {
  const boundary = toRunBoundary({
    tier: "job+launcher+unique",
    tierNote: null,
    cgroup: "holdfast-run_1",
    cgroupInode: null,
  });
  expect(boundary).toEqual({ cgroup: null, cgroupInode: null, jobId: "holdfast-run_1", note: null });
  expect(cgroupOf({ boundary })).toBeNull();
});

test("the boundary of a cgroup has no job", () => {
  const facts = { tier: "cgroup+launcher+unique", tierNote: null, cgroup: "/x/runs/1", cgroupInode: "7" };
  expect(toRunBoundary(facts)).toEqual({ cgroup: "/x/runs/1", cgroupInode: "7", note: null });
});
