import { expect, onTestFinished, test, vi } from "vitest";
import { fakeSupervisor, spawnFakeRun, nextTurn } from "../../support/supervisor/fake-supervisor.js";

test("who has been told whether a service is ready is not bothered when its run is let go of", async () => {
  const unhandled = vi.fn();
  process.on("unhandledRejection", unhandled);
  onTestFinished(() => void process.off("unhandledRejection", unhandled));
  const world = fakeSupervisor();
  const { runId } = await spawnFakeRun(world, { kind: "service", port: 1 });
  expect(await world.supervisor.ready(runId, { timeoutMs: 0 })).toMatchObject({ kind: "timeout" });
  await world.supervisor.close({ leaveRuns: true });
  await nextTurn();
  expect(unhandled).not.toHaveBeenCalled();
});
