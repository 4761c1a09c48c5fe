import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { Supervisor } from "../../../src/supervisor/api.js";
import type { Action, Row } from "../../../src/supervisor/decision.js";
import { signalProcess } from "../../support/live-processes.js";
import { type SandboxTier, tiers } from "../../support/sandbox.js";
import {
  FIRST_INSTANCE,
  NEXT_INSTANCE,
  ORPHAN_GRACE_MS,
  type SharedHome,
  signalRecorded,
  waitUntilGone,
} from "../../support/supervisor/shared-home.js";
import type { SupervisorProcess } from "../../support/supervisor/supervisor-process.js";
import { waitFor } from "../../support/wait-for.js";

/** A row of the table, or a case of one. */
export interface DecisionCase {
  readonly name: string;
  readonly tier?: SandboxTier;
  readonly settleMs?: number;
  /** Brings a run into that case, and says which it is. */
  arrange(sharedHome: SharedHome, supervisorProcess: SupervisorProcess): Promise<string>;
  /** Who looks. Default: another instance. */
  readonly by?: typeof FIRST_INSTANCE;
  readonly decision: { readonly row: Row; readonly action: Action };
  /** A healthy run is not even looked at: no decision, no event. */
  readonly told?: 0;
  readonly record: object;
  /** Who of the run lives on: of those who were there. */
  readonly alive: "nobody" | "everybody";
  /** Ends what was rightly left alone. */
  end?(
    sharedHome: SharedHome,
    supervisorProcess: SupervisorProcess,
    next: Supervisor,
    runId: string,
  ): Promise<void>;
}

const expectLost = (emptiness: string, more: object = {}): object => ({
  state: "exited",
  ownerInstanceId: NEXT_INSTANCE,
  emptiness,
  exit: { reason: "lost", actor: "", code: null, signal: null, source: "none", ...more },
});
const expectRunning = (owner: string): object => ({ state: "running", ownerInstanceId: owner, exit: null });

/** A run with everybody there, whose owner was killed. */
async function orphanRun(
  sharedHome: SharedHome,
  supervisorProcess: SupervisorProcess,
  options: object = {},
): Promise<string> {
  const { runId } = await supervisorProcess.spawn(sharedHome.scenario, {
    graceMs: ORPHAN_GRACE_MS,
    ...options,
  });
  await sharedHome.tokenProcesses.waitForAllRoles();
  await supervisorProcess.kill();
  sharedHome.expireLeases();
  return runId;
}

/** The same, of which the record says something else. */
function orphanWithColumns(columns: Readonly<Record<string, string>>): DecisionCase["arrange"] {
  return async (sharedHome, supervisorProcess) => {
    const runId = await orphanRun(sharedHome, supervisorProcess);
    sharedHome.updateRecord(runId, columns);
    return runId;
  };
}

/** The keeper is killed at that step of a spawn. */
function killedAtStep(
  step: Parameters<SupervisorProcess["pauseAt"]>[0],
  script: string,
): DecisionCase["arrange"] {
  return async (sharedHome, supervisorProcess) => {
    await supervisorProcess.pauseAt(step);
    supervisorProcess.order("spawn", {
      input: sharedHome.script(script),
      options: { graceMs: ORPHAN_GRACE_MS },
    });
    await supervisorProcess.waitUntilPaused();
    await supervisorProcess.kill();
    sharedHome.expireLeases();
    return sharedHome.onlyRun();
  };
}

/** Wrapper, child and grandchild, all of whom somebody else must end. */
function threeGenerations(before: string): DecisionCase["arrange"] {
  return async (sharedHome, supervisorProcess) => {
    const { token } = sharedHome.tokenProcesses;
    const script = `${before} sh -c '${before} sleep 100001.${token} & wait; : ${token}' & wait; : ${token}`;
    const { runId } = await supervisorProcess.spawn(sharedHome.script(script), { graceMs: ORPHAN_GRACE_MS });
    await waitFor("all three are there", () => sharedHome.tokenProcesses.ofRuns().length === 3);
    await supervisorProcess.kill();
    await sharedHome.stopAnchors(FIRST_INSTANCE);
    sharedHome.expireLeases();
    return runId;
  };
}

const cancelByOwner: DecisionCase["end"] = async (_, supervisorProcess, __, runId) => {
  supervisorProcess.cancel(runId);
  await supervisorProcess.receive("ended");
  await supervisorProcess.kill();
};
const cancelByNext: DecisionCase["end"] = async (_, __, next, runId) => {
  const run = next.run(runId);
  await run?.cancel();
  await run?.wait();
};

/** The truth is on record again: now it is decided. */
const restore =
  (column: "host_id" | "boot_id" | "pid_namespace"): NonNullable<DecisionCase["end"]> =>
  async (sharedHome, _, next, runId) => {
    sharedHome.updateRecord(runId, { [column]: (await sharedHome.machine())[column] });
    sharedHome.expireLeases();
    const { runs } = await next.reconcile({ terminate: true });
    expect((await runs[0]?.wait())?.exit?.reason).toBe("owner-lost");
  };

export const decisionCases: readonly DecisionCase[] = [
  {
    name: "lease healthy, another owner: not touched",
    arrange: async (sharedHome, supervisorProcess) => {
      const { runId } = await supervisorProcess.spawn(sharedHome.scenario, { graceMs: ORPHAN_GRACE_MS });
      await sharedHome.tokenProcesses.waitForAllRoles();
      return runId;
    },
    decision: { row: "healthy", action: "leave" },
    told: 0,
    record: expectRunning(FIRST_INSTANCE),
    alive: "everybody",
    end: cancelByOwner,
  },
  {
    name: "lease expired, but its owner only sleeps: not touched, and it goes on with it",
    arrange: async (sharedHome, supervisorProcess) => {
      const { runId } = await supervisorProcess.spawn(sharedHome.scenario, { graceMs: ORPHAN_GRACE_MS });
      await sharedHome.tokenProcesses.waitForAllRoles();
      await supervisorProcess.suspend();
      sharedHome.expireLeases();
      return runId;
    },
    decision: { row: "stalled", action: "leave" },
    record: expectRunning(FIRST_INSTANCE),
    alive: "everybody",
    end: async (_, supervisorProcess, __, runId) => {
      supervisorProcess.resume();
      await supervisorProcess.write(runId, "exit 4\n");
      expect((await supervisorProcess.receive("ended")).record).toMatchObject({
        exit: { code: 4 },
        ownerInstanceId: FIRST_INSTANCE,
      });
      await supervisorProcess.kill();
    },
  },
  {
    name: "another host: never signalled, never finalized",
    arrange: orphanWithColumns({ host_id: "another" }),
    decision: { row: "elsewhere", action: "leave" },
    record: expectRunning(FIRST_INSTANCE),
    alive: "everybody",
    end: restore("host_id"),
  },
  {
    name: "another boot of an instance that is not local: never signalled, never finalized",
    arrange: orphanWithColumns({ boot_id: "another", owner_instance_id: "in_far" }),
    decision: { row: "elsewhere", action: "leave" },
    record: expectRunning("in_far"),
    alive: "everybody",
    end: async (sharedHome, supervisorProcess, next, runId) => {
      sharedHome.updateRecord(runId, { owner_instance_id: FIRST_INSTANCE });
      await restore("boot_id")(sharedHome, supervisorProcess, next, runId);
    },
  },
  {
    name: "another PID namespace: never signalled, never finalized",
    arrange: orphanWithColumns({ pid_namespace: "pid:[1]" }),
    decision: { row: "elsewhere", action: "leave" },
    record: expectRunning(FIRST_INSTANCE),
    alive: "everybody",
    end: restore("pid_namespace"),
  },
  {
    name: "another PID namespace, but mine, and its anchor answers: continued",
    by: FIRST_INSTANCE,
    arrange: orphanWithColumns({ pid_namespace: "pid:[1]" }),
    decision: { row: "anchor-alive", action: "continue" },
    record: expectRunning(FIRST_INSTANCE),
    alive: "everybody",
    end: cancelByNext,
  },
  {
    name: "another boot of a dead local instance: lost by restart, nobody signalled",
    arrange: orphanWithColumns({ boot_id: "another" }),
    decision: { row: "other-boot", action: "lose" },
    record: expectLost("proven", { detail: expect.stringContaining("restarted") as string }),
    // They are of this boot: that they live is the proof that nobody was signalled.
    alive: "everybody",
    end: async (sharedHome) => {
      for (const one of sharedHome.anchors(FIRST_INSTANCE)) signalProcess(one, "SIGTERM");
      await sharedHome.tokenProcesses.waitUntilGone(5_000);
    },
  },
  {
    name: "another boot, mine: lost by restart, nobody signalled",
    by: FIRST_INSTANCE,
    arrange: orphanWithColumns({ boot_id: "another" }),
    decision: { row: "other-boot", action: "lose" },
    record: { ...expectLost("proven"), ownerInstanceId: FIRST_INSTANCE },
    alive: "everybody",
    end: async (sharedHome) => {
      for (const one of sharedHome.anchors(FIRST_INSTANCE)) signalProcess(one, "SIGTERM");
      await sharedHome.tokenProcesses.waitUntilGone(5_000);
    },
  },
  {
    name: "exit file present: the true status",
    arrange: killedAtStep("end-heard", "exit 7"),
    decision: { row: "exit-file", action: "finalize" },
    record: {
      state: "exited",
      emptiness: "proven",
      exit: { reason: "exit", actor: "", code: 7, signal: null, source: "exit-file" },
      residue: [],
    },
    alive: "nobody",
  },
  {
    name: "exit file present, ended by its own policy: who asked, and who was left",
    arrange: async (sharedHome, supervisorProcess) => {
      const runId = await orphanRun(sharedHome, supervisorProcess, { ownerLossMs: 50 });
      await sharedHome.tokenProcesses.waitUntilGone(5_000);
      await waitFor("its exit file is there", () =>
        existsSync(join(sharedHome.runDirectory({ originInstanceId: FIRST_INSTANCE, runId }), "exit.json")),
      );
      return runId;
    },
    decision: { row: "exit-file", action: "finalize" },
    record: {
      state: "exited",
      emptiness: "proven",
      exit: { reason: "owner-lost", actor: "anchor", signal: "SIGTERM", source: "exit-file" },
      residue: [{ kind: "background", command: "sleep" }],
      residueCount: 1,
    },
    alive: "nobody",
  },
  {
    name: "never executed, without an identity: interrupted",
    arrange: killedAtStep("inserted", "exit 7"),
    decision: { row: "never-executed", action: "spawn-error" },
    record: {
      state: "exited",
      emptiness: "proven",
      root: null,
      startedAt: null,
      exit: { reason: "spawn-error", code: null, signal: null, source: "none" },
    },
    alive: "nobody",
  },
  {
    name: "never executed, with the gate closed: its anchor says so",
    arrange: async (sharedHome, supervisorProcess) => {
      const runId = await killedAtStep("committed", "exit 7")(sharedHome, supervisorProcess);
      await waitFor("its exit file is there", () =>
        existsSync(join(sharedHome.runDirectory({ originInstanceId: FIRST_INSTANCE, runId }), "exit.json")),
      );
      return runId;
    },
    decision: { row: "exit-file", action: "finalize" },
    record: {
      state: "exited",
      emptiness: "proven",
      startedAt: null,
      exit: { reason: "spawn-error", code: null, signal: null, source: "none" },
    },
    alive: "nobody",
  },
  {
    name: "anchor alive, lease mine: continued",
    by: FIRST_INSTANCE,
    arrange: orphanRun,
    decision: { row: "anchor-alive", action: "continue" },
    record: { ...expectRunning(FIRST_INSTANCE), leaseEpoch: 2 },
    alive: "everybody",
    end: cancelByNext,
  },
  {
    name: "anchor alive, lease stealable: adopted",
    arrange: orphanRun,
    decision: { row: "anchor-alive", action: "adopt" },
    record: { ...expectRunning(NEXT_INSTANCE), leaseEpoch: 2 },
    alive: "everybody",
    end: cancelByNext,
  },
  {
    name: "anchor alive, lease stealable, a service: adopted",
    arrange: (sharedHome, supervisorProcess) => orphanRun(sharedHome, supervisorProcess, { kind: "service" }),
    decision: { row: "anchor-alive", action: "adopt" },
    record: { ...expectRunning(NEXT_INSTANCE), kind: "service" },
    alive: "everybody",
    end: cancelByNext,
  },
  {
    name: "anchor alive, lease stealable, not to outlive its owner: terminated",
    arrange: (sharedHome, supervisorProcess) =>
      orphanRun(sharedHome, supervisorProcess, { onOrphan: "terminate" }),
    decision: { row: "anchor-alive", action: "terminate" },
    record: {
      state: "exited",
      ownerInstanceId: NEXT_INSTANCE,
      emptiness: "proven",
      exit: {
        reason: "owner-lost",
        actor: `supervisor:${NEXT_INSTANCE}`,
        signal: "SIGTERM",
        source: "anchor",
      },
      residueCount: 1,
    },
    alive: "nobody",
  },
  {
    name: "anchor dead, launcher alive: it has cleaned up",
    arrange: async (sharedHome, supervisorProcess) => {
      const { runId, anchor } = await supervisorProcess.spawn(sharedHome.scenario, {
        graceMs: ORPHAN_GRACE_MS,
      });
      await sharedHome.tokenProcesses.waitForAllRoles();
      await supervisorProcess.suspend();
      signalRecorded(anchor, "SIGKILL");
      await waitFor("the launcher says so", () =>
        existsSync(join(sharedHome.runDirectory({ originInstanceId: FIRST_INSTANCE, runId }), "swept.json")),
      );
      await supervisorProcess.kill();
      sharedHome.expireLeases();
      return runId;
    },
    decision: { row: "swept", action: "lose" },
    record: expectLost("proven"),
    alive: "nobody",
  },
  {
    name: "anchor dead, root verified: a startup orphan with wrapper, child and grandchild is ended",
    arrange: threeGenerations(""),
    decision: { row: "root-alive", action: "sweep" },
    // Without a cgroup, nobody can say that no daemon had left the tree before.
    record: expectLost("unproven"),
    alive: "nobody",
  },
  {
    name: "anchor dead, root verified, TERM ignored by all: reaches KILL",
    arrange: threeGenerations('trap "" TERM;'),
    decision: { row: "root-alive", action: "sweep" },
    record: expectLost("unproven"),
    alive: "nobody",
  },
  {
    name: "anchor dead, root verified, with a cgroup: everybody, the daemon too",
    tier: tiers.cgroup,
    arrange: async (sharedHome, supervisorProcess) => {
      const runId = await orphanRun(sharedHome, supervisorProcess);
      await sharedHome.stopAnchors(FIRST_INSTANCE);
      return runId;
    },
    decision: { row: "root-alive", action: "sweep" },
    record: expectLost("proven"),
    alive: "nobody",
  },
  {
    name: "anchor dead, root gone, boundary not empty: swept, and lost",
    tier: tiers.cgroup,
    arrange: async (sharedHome, supervisorProcess) => {
      const { runId, root } = await supervisorProcess.spawn(sharedHome.scenario, {
        graceMs: ORPHAN_GRACE_MS,
      });
      await sharedHome.tokenProcesses.waitForAllRoles();
      await supervisorProcess.kill();
      await sharedHome.stopAnchors(FIRST_INSTANCE);
      signalRecorded(root, "SIGKILL");
      await waitUntilGone(root);
      sharedHome.expireLeases();
      return runId;
    },
    decision: { row: "detached-orphaned", action: "sweep" },
    record: expectLost("proven", { detail: expect.stringContaining("were killed here") as string }),
    alive: "nobody",
  },
  {
    name: "anchor dead, leader ended by itself, boundary not empty: an escape, with the leader's status",
    tier: tiers.cgroup,
    settleMs: 60_000,
    arrange: async (sharedHome, supervisorProcess) => {
      const { runId, root } = await supervisorProcess.spawn(sharedHome.scenario, {
        graceMs: ORPHAN_GRACE_MS,
      });
      await sharedHome.tokenProcesses.waitForAllRoles();
      await supervisorProcess.write(runId, "exit 6\n");
      await waitUntilGone(root);
      await waitFor("its status is noted", () =>
        existsSync(join(sharedHome.runDirectory({ originInstanceId: FIRST_INSTANCE, runId }), "leader.json")),
      );
      await supervisorProcess.kill();
      await sharedHome.stopAnchors(FIRST_INSTANCE);
      sharedHome.expireLeases();
      return runId;
    },
    decision: { row: "detached-orphaned", action: "sweep" },
    record: {
      state: "exited",
      ownerInstanceId: NEXT_INSTANCE,
      emptiness: "proven",
      exit: { reason: "ownership-escape", code: 6, signal: null, source: "leader-file" },
      residueCount: 4,
    },
    alive: "nobody",
  },
  {
    name: "anchor dead, everybody gone, boundary empty: lost, and that is proven",
    tier: tiers.cgroup,
    arrange: async (sharedHome, supervisorProcess) => {
      const runId = await orphanRun(sharedHome, supervisorProcess);
      await sharedHome.stopAnchors(FIRST_INSTANCE);
      for (const one of sharedHome.tokenProcesses.ofRuns()) signalProcess(one, "SIGKILL");
      await sharedHome.tokenProcesses.waitUntilGone(5_000);
      return runId;
    },
    decision: { row: "swept", action: "lose" },
    record: expectLost("proven"),
    alive: "nobody",
  },
  {
    name: "nothing verifiable: lost, unproven, nobody signalled, and it is said what is not known",
    arrange: async (sharedHome, supervisorProcess) => {
      const { runId, root } = await supervisorProcess.spawn(sharedHome.scenario, {
        graceMs: ORPHAN_GRACE_MS,
      });
      await sharedHome.tokenProcesses.waitForAllRoles();
      await supervisorProcess.kill();
      await sharedHome.stopAnchors(FIRST_INSTANCE);
      signalRecorded(root, "SIGKILL");
      await waitUntilGone(root);
      sharedHome.expireLeases();
      return runId;
    },
    decision: { row: "unverifiable", action: "lose" },
    record: expectLost("unproven", { detail: expect.stringContaining("nothing was signalled") as string }),
    // All but the leader.
    alive: "everybody",
    end: (sharedHome) => sharedHome.killStrays(),
  },
  {
    name: "stale lease with a missing process: lost, unproven",
    arrange: async (sharedHome, supervisorProcess) => {
      const { token } = sharedHome.tokenProcesses;
      const { runId, root } = await supervisorProcess.spawn({
        io: "pipe",
        argv: ["sleep", `100001.${token}`],
      });
      await supervisorProcess.kill();
      await sharedHome.stopAnchors(FIRST_INSTANCE);
      signalRecorded(root, "SIGKILL");
      await waitUntilGone(root);
      sharedHome.expireLeases();
      return runId;
    },
    decision: { row: "unverifiable", action: "lose" },
    record: expectLost("unproven"),
    alive: "nobody",
  },
];
