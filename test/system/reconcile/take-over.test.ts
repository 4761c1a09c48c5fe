import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readOutput, waitForOutput } from "../../support/supervisor/real-supervisor.js";
import {
  FIRST_INSTANCE,
  NEXT_INSTANCE,
  orphanScenario,
  SharedHome,
} from "../../support/supervisor/shared-home.js";

/** Writes a wrong end. */
const ENDED = {
  state: "exited",
  ended_at: Date.now(),
  exit_reason: "lost",
  exit_actor: "",
  exit_source: "none",
  emptiness: "unproven",
};

describe.concurrent("a run whose owner was killed", () => {
  test("continues under its new owner, with output, input and exit code", async () => {
    await using sharedHome = await SharedHome.open();
    const supervisorProcess = await sharedHome.supervisorProcess(FIRST_INSTANCE);
    const script = `echo first; read a; echo "got $a"; read b; echo "got $b"; exit 9`;
    const { runId } = await supervisorProcess.spawn(sharedHome.script(script));
    await supervisorProcess.waitForOutput("first\n");
    await supervisorProcess.write(runId, "one\n");
    await supervisorProcess.waitForOutput("got one\n");
    await supervisorProcess.kill();
    sharedHome.expireLeases();
    const gateway = await sharedHome.gateway();
    const run = gateway.supervisor.run(runId);
    if (run === null) throw new Error("it was not adopted");
    await waitForOutput(run, "first\ngot one\n");
    await run.write("two\n");
    expect((await readOutput(run)).stdout).toBe("first\ngot one\ngot two\n");
    expect(await run.wait()).toMatchObject({
      ownerInstanceId: gateway.instanceId,
      originInstanceId: FIRST_INSTANCE,
      leaseEpoch: 2,
      exit: { reason: "exit", code: 9, source: "anchor" },
      emptiness: "proven",
    });
    expect(sharedHome.eventTypes(runId).filter((type) => type !== "output")).toEqual([
      "spawn",
      "reconcile",
      "exit",
    ]);
    expect(sharedHome.gatewayEvents).toContainEqual(
      expect.objectContaining({ type: "decision", runId, row: "anchor-alive", action: "adopt" }),
    );
  });

  test("and whose record another supervisor ended is stopped when the owner returns", async () => {
    await using sharedHome = await SharedHome.open();
    const runId = await orphanScenario(sharedHome);
    sharedHome.updateRecord(runId, ENDED);
    const ended = sharedHome.dumpStore();

    const returned = await sharedHome.supervisor(FIRST_INSTANCE);
    expect(await returned.reconcile()).toEqual({ decisions: [], runs: [] });
    await sharedHome.tokenProcesses.waitUntilGone(5_000);
    expect(sharedHome.dumpStore()).toEqual(ended);
    await returned.reconcile();
    expect(sharedHome.dumpStore()).toEqual(ended);
  });
});

test.concurrent("a silent anchor of an ended record is tried again", async () => {
  await using sharedHome = await SharedHome.open();
  const runId = await orphanScenario(sharedHome, { kind: "service" });
  sharedHome.updateRecord(runId, ENDED);
  const key = join(sharedHome.runDirectory({ originInstanceId: FIRST_INSTANCE, runId }), "key");
  const kept = readFileSync(key);
  writeFileSync(key, "0".repeat(kept.length));
  const next = await sharedHome.supervisor(NEXT_INSTANCE);
  await next.reconcile();
  expect(sharedHome.tokenProcesses.ofRuns()).toHaveLength(5);
  writeFileSync(key, kept);
  await next.reconcile();
  await sharedHome.tokenProcesses.waitUntilGone(5_000);
});
