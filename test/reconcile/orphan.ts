import type { SpawnOptions } from "../../src/supervisor/api.js";
import { until } from "../support/live-processes.js";
import type { SharedHome } from "../support/supervisor/shared-home.js";

/** Started the runs, and is gone. */
export const FIRST_INSTANCE = "in_first";
/** Comes after it. */
export const NEXT_INSTANCE = "in_next";
export const ORPHAN_GRACE_MS = 200;

/** The whole scenario, whose owner was killed and whose lease has expired. */
export async function orphanScenario(sharedHome: SharedHome, options: SpawnOptions = {}): Promise<string> {
  const supervisorProcess = await sharedHome.supervisorProcess(FIRST_INSTANCE);
  const { runId } = await supervisorProcess.spawn(sharedHome.scenario, {
    graceMs: ORPHAN_GRACE_MS,
    ...options,
  });
  await sharedHome.tokenProcesses.waitForAllRoles();
  await supervisorProcess.kill();
  sharedHome.expireLeases();
  return runId;
}

/** Three who go when they are asked: what has no record has the usual grace, which is long. */
export async function orphanDocileRun(sharedHome: SharedHome): Promise<string> {
  const { token } = sharedHome.tokenProcesses;
  const supervisorProcess = await sharedHome.supervisorProcess(FIRST_INSTANCE);
  const script = `setsid sleep 100003.${token} & sleep 100001.${token}; :`;
  const { runId } = await supervisorProcess.spawn(sharedHome.script(script));
  await until("all three are there", () => sharedHome.tokenProcesses.ofRuns().length === 3);
  await supervisorProcess.kill();
  return runId;
}
