import { expect, test } from "vitest";
import { type LocalState, resolveRun } from "../../../src/cli/client/resolve-run.js";
import { stopFoundRun } from "../../../src/cli/stop/stop-coordinator.js";
import { FakeAnchor } from "../../support/supervisor/fake-anchor.js";
import { FakeHost } from "../../support/supervisor/fake-host.js";

function observatory(host: FakeHost): LocalState {
  const directory = {
    home: "/nowhere",
    storePath: "/nowhere/store.sqlite",
    instancesPath: "/nowhere/instances",
  };
  return {
    // What it lacks only looks at processes.
    host: host as unknown as LocalState["host"],
    directory: directory,
    [Symbol.asyncDispose]: async () => undefined,
  };
}

test("a run is found although another instance's directory cannot be read", async () => {
  const host = new FakeHost();
  host.locals = ["in_closed", "in_test"].map((instanceId) => ({ instanceId, alive: true, launched: true }));
  Object.assign(host, {
    listRunIds: async (instanceId: string) =>
      instanceId === "in_test" ? ["run_wanted"] : Promise.reject(new Error("EACCES")),
  });
  expect(await resolveRun(observatory(host), "wanted")).toMatchObject({
    runId: "run_wanted",
    address: { instanceId: "in_test" },
  });
});

test("a run that somebody abandoned while it was being stopped is not called gone", async () => {
  const host = new FakeHost();
  const anchor = new FakeAnchor("run_stuck", 1, 100);
  host.anchors.set("run_stuck", anchor);
  const left = { pid: 101, startTime: 5, kind: "unkillable", command: "dd" } as const;
  anchor.stop = () => anchor.exit({ reason: "lost", emptiness: "unproven", residue: [left] });
  const run = {
    runId: "run_stuck",
    address: { instanceId: "in_test", runId: "run_stuck" },
    record: null,
    unread: null,
  };
  expect(await stopFoundRun(observatory(host), run, null)).toMatchObject({
    outcome: "survivors",
    survivors: [{ pid: 101 }],
  });
});
