import { expect, test } from "vitest";
import { cgroupOf, toRunBoundary } from "../../../src/supervisor/run/recorded-identity.js";

test("the boundary of a job is its name, and is found like a cgroup", () => {
  const boundary = toRunBoundary({
    tier: "job+launcher+unique",
    tierNote: null,
    cgroup: String.raw`Global\holdfast-1`,
    cgroupInode: "7",
  });
  expect(boundary).toEqual({
    cgroup: null,
    cgroupInode: "7",
    jobId: String.raw`Global\holdfast-1`,
    note: null,
  });
  expect(cgroupOf({ boundary })).toEqual({ path: String.raw`Global\holdfast-1`, inode: "7" });
});

test("the boundary of a cgroup has no job", () => {
  const facts = { tier: "cgroup+launcher+unique", tierNote: null, cgroup: "/x/runs/1", cgroupInode: "7" };
  const boundary = toRunBoundary(facts);
  expect(boundary).toEqual({ cgroup: "/x/runs/1", cgroupInode: "7", note: null });
  expect(cgroupOf({ boundary })).toEqual({ path: "/x/runs/1", inode: "7" });
});
