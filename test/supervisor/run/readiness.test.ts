import { expect, onTestFinished, test, vi } from "vitest";
import { fakeSupervisor, spawnFakeRun, nextTurn } from "../../support/supervisor/fake-supervisor.js";

test("a finished wait for readiness does not reject when the run is detached", async () => {
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
