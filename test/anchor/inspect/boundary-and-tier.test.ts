import { expect, test } from "vitest";
import { isWeakTier, probeBoundary } from "../../../src/anchor/inspect/boundary-and-tier.js";

test("each system has its own boundary", async () => {
  expect(await probeBoundary("linux", async () => ({ state: "usable", path: "/x" }))).toBe("cgroup");
  expect(await probeBoundary("linux", async () => ({ state: "none" }))).toBe("subreaper");
  expect(await probeBoundary("win32")).toBe("job");
  expect(await probeBoundary("darwin")).toBe("lineage");
  expect(await probeBoundary("freebsd")).toBe("group");
});

test("a tier without process handles, or with a process group only, is weak", () => {
  const tiers = ["cgroup+launcher+number", "subreaper+launcher+number", "subreaper+launcher+unique"];
  expect(
    [...tiers, "job+launcher+unique", "lineage+launcher+unique", "group+launcher"].filter(isWeakTier),
  ).toEqual(["subreaper+launcher+number", "group+launcher"]);
});
