import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import type { SpawnOptions, Supervisor } from "../../../src/supervisor/api.js";
import { signalProcess } from "../../support/live-processes.js";
import {
  FIRST_INSTANCE,
  ORPHAN_GRACE_MS,
  type SharedHome,
  signalRecorded,
  waitUntilGone,
} from "../../support/supervisor/shared-home.js";
import type { SupervisorProcess, SupervisorStep } from "../../support/supervisor/supervisor-process.js";
import { waitFor } from "../../support/wait-for.js";

/** Brings a run of `owner` into some state and resolves with its id. */
export type Arrange = (home: SharedHome, owner: SupervisorProcess) => Promise<string>;

/** Ends a run that was left alone or continued. */
export type End = (
  home: SharedHome,
  owner: SupervisorProcess,
  next: Supervisor,
  runId: string,
) => Promise<void>;

/** A run with all processes of the scenario. */
export async function liveRun(
  home: SharedHome,
  owner: SupervisorProcess,
  options: SpawnOptions = {},
): Promise<RunRecord> {
  const record = await owner.spawn(home.scenario, { graceMs: ORPHAN_GRACE_MS, ...options });
  await home.tokenProcesses.waitForAllRoles();
  return record;
}

/** The same, whose owner was killed. */
export async function orphanRun(
  home: SharedHome,
  owner: SupervisorProcess,
  options: SpawnOptions = {},
): Promise<string> {
  const { runId } = await liveRun(home, owner, options);
  await owner.kill();
  home.expireLeases();
  return runId;
}

/** The same, with other values on record. */
export function orphanWithColumns(columns: Readonly<Record<string, string>>): Arrange {
  return async (home, owner) => {
    const runId = await orphanRun(home, owner);
    home.updateRecord(runId, columns);
    return runId;
  };
}

/** Kills owner, launcher and anchor, then also the leader. */
export async function killAll(
  home: SharedHome,
  owner: SupervisorProcess,
  { runId, root }: RunRecord,
): Promise<string> {
  await owner.kill();
  await home.stopAnchors(FIRST_INSTANCE);
  signalRecorded(root, "SIGKILL");
  await waitUntilGone(root);
  home.expireLeases();
  return runId;
}

export async function waitForFile(home: SharedHome, runId: string, name: string): Promise<void> {
  const path = join(home.runDirectory({ originInstanceId: FIRST_INSTANCE, runId }), name);
  await waitFor(`${name} is written`, () => existsSync(path));
}

/** The owner is killed at this step of a spawn. */
export function killedAtStep(step: SupervisorStep): Arrange {
  return async (home, owner) => {
    await owner.pauseAt(step);
    owner.order("spawn", { input: home.script("exit 7"), options: { graceMs: ORPHAN_GRACE_MS } });
    await owner.waitUntilPaused();
    await owner.kill();
    home.expireLeases();
    return home.onlyRun();
  };
}

/** Wrapper, child and grandchild without owner, launcher and anchor. */
export function threeGenerations(before: string): Arrange {
  return async (home, owner) => {
    const { token } = home.tokenProcesses;
    const script = `${before} sh -c '${before} sleep 100001.${token} & wait; : ${token}' & wait; : ${token}`;
    const { runId } = await owner.spawn(home.script(script), { graceMs: ORPHAN_GRACE_MS });
    await waitFor("all three run", () => home.tokenProcesses.ofRuns().length === 3);
    await owner.kill();
    await home.stopAnchors(FIRST_INSTANCE);
    home.expireLeases();
    return runId;
  };
}

export const cancelByOwner: End = async (_, owner, __, runId) => {
  owner.cancel(runId);
  await owner.receive("ended");
  await owner.kill();
};
export const cancelByNext: End = async (_, __, next, runId) => {
  const run = next.run(runId);
  await run?.cancel();
  await run?.wait();
};
export const stopAnchor: End = async (home) => {
  for (const anchor of home.anchors(FIRST_INSTANCE)) signalProcess(anchor, "SIGTERM");
  await home.tokenProcesses.waitUntilGone(5_000);
};

/** Corrects the record: then the run is stopped. */
export const restore =
  (column: "host_id" | "boot_id" | "pid_namespace"): End =>
  async (home, _, next, runId) => {
    home.updateRecord(runId, { [column]: (await home.machine())[column], owner_instance_id: FIRST_INSTANCE });
    home.expireLeases();
    const { runs } = await next.reconcile({ terminate: true });
    expect((await runs[0]?.wait())?.exit?.reason).toBe("owner-lost");
  };
