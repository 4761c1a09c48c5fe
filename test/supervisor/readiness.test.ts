import { expect, onTestFinished, test, vi } from "vitest";
import { fakeWorld, start, turn } from "./fake-supervisor.js";

test("who has been told whether a service is ready is not bothered when its run is let go of", async () => {
  const unhandled = vi.fn();
  process.on("unhandledRejection", unhandled);
  onTestFinished(() => void process.off("unhandledRejection", unhandled));
  const world = fakeWorld();
  const { runId } = await start(world, { kind: "service", port: 1 });
  expect(await world.supervisor.ready(runId, { timeoutMs: 0 })).toMatchObject({ kind: "timeout" });
  await world.supervisor.close({ leaveRuns: true });
  await turn();
  expect(unhandled).not.toHaveBeenCalled();
});
