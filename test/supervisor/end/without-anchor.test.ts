import { expect, test } from "vitest";
import { killVerifiedTree } from "../../../src/supervisor/end/without-anchor.js";
import type { RecordedIdentity } from "../../../src/supervisor/run/recorded-identity.js";
import { FakeHost } from "../../support/supervisor/fake-host.js";

const traces: RecordedIdentity = {
  run: { instanceId: "in_test", runId: "run_a" },
  leaseId: "lease_a",
  machine: { hostId: "host", bootId: "boot", pidNamespace: "pid:[1]", timeNamespace: null },
  anchor: null,
  root: { pid: 77, startTime: 1, uniqueId: "7" },
  boundary: { cgroup: "/cgroup/run_a", cgroupInode: "9", note: null },
  graceMs: 0,
  anchorPath: "/nowhere/anchor",
};

for (const [seen, taken] of [
  ["empty", [{ root: null, cgroup: { path: "/cgroup/run_a", inode: "9" }, leaseId: null, graceMs: 0 }]],
  ["gone", []],
] as const)
  test(`a dead anchor's cgroup that is ${seen} proves that no process is left, and is removed`, async () => {
    const host = new FakeHost();
    host.cgroups.set("/cgroup/run_a", seen);
    expect(await killVerifiedTree(host, traces)).toMatchObject({
      emptiness: "proven",
      by: null,
      killed: 0,
    });
    expect(host.reaped).toEqual(taken);
  });

test("a process in a dead anchor's cgroup is killed", async () => {
  const host = new FakeHost();
  host.cgroups.set("/cgroup/run_a", "populated");
  expect(await killVerifiedTree(host, traces)).toMatchObject({ emptiness: "proven", by: "reap", killed: 2 });
  expect(host.reaped).toMatchObject([{ root: null, cgroup: { inode: "9" } }]);
});

test("a leader whose first thread has ended is not gone: it is verified and killed", async () => {
  const host = new FakeHost();
  host.alive.add(77);
  const inspect = host.inspectProcesses.bind(host);
  host.inspectProcesses = async (wanted) => (await inspect(wanted)).map((each) => ({ ...each, state: "Z" }));
  await killVerifiedTree(host, { ...traces, boundary: null });
  expect(host.reaped).toMatchObject([{ root: traces.root }]);
});
