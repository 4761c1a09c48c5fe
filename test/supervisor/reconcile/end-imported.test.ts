import { expect, test } from "vitest";
import type { ProcessEvidence } from "../../../src/anchor/host-interface.js";
import { NEVER_OWNED } from "../../../src/supervisor/reconcile/decide.js";
import { commandHash } from "../../../src/text/redact.js";
import {
  fakeSupervisor,
  spawnFakeRun,
  type FakeSupervisor,
} from "../../support/supervisor/fake-supervisor.js";

const ARGV = ["/opt/tool/wrap", "serve"];

/** A record of another tool's process, and that process. */
async function imported({ store, host, supervisor }: FakeSupervisor): Promise<void> {
  const run = await spawnFakeRun({ store, host, supervisor, problems: [] });
  const record = store.runs.get(run.runId) ?? expect.fail("no record");
  store.runs.set("run_imported", {
    ...record,
    runId: "run_imported",
    leaseId: "",
    state: "starting",
    originInstanceId: "imported",
    ownerInstanceId: NEVER_OWNED,
    leaseExpiresAt: 0,
    anchor: null,
    root: null,
    imported: { pid: 70, commandHash: commandHash(ARGV), wrapperRoot: "/opt/tool", startTime: null },
  });
  host.alive.add(70);
  const inspect = host.inspectProcesses.bind(host);
  host.inspectProcesses = async (wanted) =>
    (await inspect(wanted)).map((each): ProcessEvidence => ({
      ...each,
      argv: ARGV,
      executable: "/opt/tool/wrap",
    }));
}

test("a matching imported process is killed", async () => {
  const world = fakeSupervisor();
  await imported(world);
  await world.supervisor.reconcile();
  expect(world.host.reaped).toMatchObject([{ root: { pid: 70 }, cgroup: null }]);
  expect(world.store.runs.get("run_imported")).toMatchObject({ state: "exited", exit: { reason: "lost" } });
});

test("a process that cannot be inspected again is not ended on record, and is tried in the next pass", async () => {
  const world = fakeSupervisor();
  const { store, host, supervisor } = world;
  await imported(world);
  const inspect = host.inspectProcesses.bind(host);
  store.beforeWrite = (what) => {
    if (what === "claim") host.inspectProcesses = () => Promise.reject(new Error("no more processes"));
  };
  await supervisor.reconcile();
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(store.runs.get("run_imported")).toMatchObject({ state: "starting", exit: null });
  expect(host.reaped).toEqual([]);
  store.beforeWrite = () => undefined;
  host.inspectProcesses = inspect;
  await supervisor.reconcile();
  expect(host.reaped).toMatchObject([{ root: { pid: 70 } }]);
  expect(store.runs.get("run_imported")).toMatchObject({ state: "exited", exit: { reason: "lost" } });
});
