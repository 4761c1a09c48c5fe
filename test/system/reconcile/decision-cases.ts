import { expect } from "vitest";
import type { Decision } from "../../../src/supervisor/reconcile-decision.js";
import { type SandboxTier, tiers } from "../../support/sandbox.js";
import {
  FIRST_INSTANCE,
  NEXT_INSTANCE,
  signalRecorded,
  waitUntilGone,
} from "../../support/supervisor/shared-home.js";
import {
  type Arrange,
  cancelByNext,
  cancelByOwner,
  type End,
  killAll,
  killedAtStep,
  liveRun,
  orphanRun,
  orphanWithColumns,
  restore,
  stopAnchor,
  threeGenerations,
  waitForFile,
} from "./orphaned-runs.js";

/** One row of the decision table, or one case of a row. */
interface DecisionCase {
  readonly name: string;
  readonly tier?: SandboxTier;
  readonly settleMs?: number;
  /** Brings a run into this case and resolves with its id. */
  readonly arrange: Arrange;
  /** The instance that reconciles. Default: another one than the owner. */
  readonly by?: typeof FIRST_INSTANCE;
  readonly decision: Pick<Decision, "row" | "action">;
  readonly record: object;
  /** The processes of the run that live before the decision live afterwards. Default: none does. */
  readonly untouched?: true;
  /** Ends a run that was left alone. */
  readonly end?: End;
  /** Another test of an ordinary run has the same situation and outcome: only in a soak run. */
  readonly coveredBy?: string;
}

const ended = (reason: string, source: string, exit: object = {}, record: object = {}): object => ({
  state: "exited",
  emptiness: "proven",
  exit: { reason, source, ...exit },
  ...record,
});
const lost = (emptiness: string, detail = ""): object =>
  ended(
    "lost",
    "none",
    { actor: "", code: null, signal: null, detail: expect.stringContaining(detail) as string },
    { ownerInstanceId: NEXT_INSTANCE, emptiness },
  );
const running = (owner: string, more: object = {}): object => ({
  state: "running",
  ownerInstanceId: owner,
  exit: null,
  ...more,
});

const elsewhere = { decision: { row: "elsewhere", action: "leave" }, untouched: true } as const;
const otherBoot = {
  decision: { row: "other-boot", action: "lose" },
  untouched: true,
  end: stopAnchor,
} as const;
const adopted = {
  decision: { row: "anchor-alive", action: "adopt" },
  untouched: true,
  end: cancelByNext,
} as const;
const continued = {
  by: FIRST_INSTANCE,
  decision: { row: "anchor-alive", action: "continue" },
  untouched: true,
  end: cancelByNext,
} as const;
const neverRun = { code: null, signal: null };

export const decisionCases: readonly DecisionCase[] = [
  {
    name: "a healthy lease of another owner: not touched",
    arrange: async (home, owner) => (await liveRun(home, owner)).runId,
    decision: { row: "healthy", action: "leave" },
    record: running(FIRST_INSTANCE),
    untouched: true,
    end: cancelByOwner,
  },
  {
    name: "an expired lease of a suspended owner: not touched, and the owner continues the run",
    arrange: async (home, owner) => {
      const { runId } = await liveRun(home, owner);
      await owner.suspend();
      home.expireLeases();
      return runId;
    },
    decision: { row: "stalled", action: "leave" },
    record: running(FIRST_INSTANCE),
    untouched: true,
    end: async (_, owner, __, runId) => {
      owner.resume();
      await owner.write(runId, "exit 4\n");
      const { record } = await owner.receive("ended");
      expect(record).toMatchObject({ exit: { code: 4 }, ownerInstanceId: FIRST_INSTANCE });
      await owner.kill();
    },
  },
  {
    name: "another host: neither signalled nor finalized",
    arrange: orphanWithColumns({ host_id: "another" }),
    ...elsewhere,
    record: running(FIRST_INSTANCE),
    end: restore("host_id"),
  },
  {
    name: "another boot of an instance that is not local: neither signalled nor finalized",
    coveredBy: "supervisor/shared-database.test.ts",
    arrange: orphanWithColumns({ boot_id: "another", owner_instance_id: "in_far" }),
    ...elsewhere,
    record: running("in_far"),
    end: restore("boot_id"),
  },
  {
    name: "another PID namespace: neither signalled nor finalized",
    coveredBy: "other-hosts-and-namespaces.test.ts",
    arrange: orphanWithColumns({ pid_namespace: "pid:[1]" }),
    ...elsewhere,
    record: running(FIRST_INSTANCE),
    end: restore("pid_namespace"),
  },
  {
    name: "another PID namespace, own run, its anchor answers: continued",
    coveredBy: "other-hosts-and-namespaces.test.ts",
    arrange: orphanWithColumns({ pid_namespace: "pid:[1]" }),
    ...continued,
    record: running(FIRST_INSTANCE),
  },
  {
    name: "another boot of a dead local instance: lost by restart, nothing signalled",
    arrange: orphanWithColumns({ boot_id: "another" }),
    ...otherBoot,
    record: lost("proven", "restarted"),
  },
  {
    name: "an exit file: its status is recorded",
    arrange: killedAtStep("end-heard"),
    decision: { row: "exit-file", action: "finalize" },
    record: ended("exit", "exit-file", { actor: "", code: 7, signal: null }, { residue: [] }),
  },
  {
    name: "an exit file after owner loss: actor and residue are recorded",
    arrange: async (home, owner) => {
      const runId = await orphanRun(home, owner, { ownerLossMs: 50 });
      await home.tokenProcesses.waitUntilGone(5_000);
      await waitForFile(home, runId, "exit.json");
      return runId;
    },
    decision: { row: "exit-file", action: "finalize" },
    record: ended(
      "owner-lost",
      "exit-file",
      { actor: "anchor", signal: "SIGTERM" },
      { residue: [{ kind: "background", command: "sleep" }], residueCount: 1 },
    ),
  },
  {
    name: "never executed, without an identity: interrupted",
    coveredBy: "spawn/kill-supervisor-at-each-step.test.ts",
    arrange: killedAtStep("inserted"),
    decision: { row: "never-executed", action: "spawn-error" },
    record: ended("spawn-error", "none", neverRun, { root: null, startedAt: null }),
  },
  {
    name: "never executed, with the gate closed: its exit file says so",
    coveredBy: "spawn/kill-supervisor-at-each-step.test.ts",
    arrange: async (home, owner) => {
      const runId = await killedAtStep("committed")(home, owner);
      await waitForFile(home, runId, "exit.json");
      return runId;
    },
    decision: { row: "exit-file", action: "finalize" },
    record: ended("spawn-error", "none", neverRun, { startedAt: null }),
  },
  {
    name: "a live anchor, own run: continued",
    coveredBy: "crash/crash-matrix.test.ts",
    arrange: orphanRun,
    ...continued,
    record: running(FIRST_INSTANCE, { leaseEpoch: 2 }),
  },
  {
    name: "a live anchor of a dead owner: adopted",
    coveredBy: "take-over.test.ts",
    arrange: orphanRun,
    ...adopted,
    record: running(NEXT_INSTANCE, { leaseEpoch: 2 }),
  },
  {
    name: "a live anchor of a dead owner, to end with it: terminated",
    arrange: (home, owner) => orphanRun(home, owner, { onOrphan: "terminate" }),
    decision: { row: "anchor-alive", action: "terminate" },
    record: ended(
      "owner-lost",
      "anchor",
      { actor: `supervisor:${NEXT_INSTANCE}`, signal: "SIGTERM" },
      { ownerInstanceId: NEXT_INSTANCE, residueCount: 1 },
    ),
  },
  {
    name: "a dead anchor and a live launcher: the launcher has cleaned up",
    arrange: async (home, owner) => {
      const { runId, anchor } = await liveRun(home, owner);
      await owner.suspend();
      signalRecorded(anchor, "SIGKILL");
      await waitForFile(home, runId, "swept.json");
      await owner.kill();
      home.expireLeases();
      return runId;
    },
    decision: { row: "swept", action: "lose" },
    record: lost("proven"),
  },
  ...["", 'trap "" TERM;'].map((before): DecisionCase => ({
    name: `a dead anchor and a verified root, with descendants${before === "" ? "" : " that ignore TERM"}: killed`,
    arrange: threeGenerations(before),
    decision: { row: "root-alive", action: "sweep" },
    // Without a cgroup it is not known whether a daemon left the tree before.
    record: lost("unproven"),
  })),
  {
    name: "a dead anchor and a verified root, with a cgroup: all killed, the daemon too",
    tier: tiers.cgroup,
    arrange: async (home, owner) => {
      const runId = await orphanRun(home, owner);
      await home.stopAnchors(FIRST_INSTANCE);
      return runId;
    },
    decision: { row: "root-alive", action: "sweep" },
    record: lost("proven"),
  },
  {
    name: "anchor and root dead, the cgroup populated: killed and lost",
    tier: tiers.cgroup,
    arrange: async (home, owner) => killAll(home, owner, await liveRun(home, owner)),
    decision: { row: "detached-orphaned", action: "sweep" },
    record: lost("proven", "were killed here"),
  },
  {
    name: "a dead anchor, the leader ended by itself, the cgroup populated: an escape with the leader's status",
    tier: tiers.cgroup,
    settleMs: 60_000,
    arrange: async (home, owner) => {
      const { runId, root } = await liveRun(home, owner);
      await owner.write(runId, "exit 6\n");
      await waitUntilGone(root);
      await waitForFile(home, runId, "leader.json");
      await owner.kill();
      await home.stopAnchors(FIRST_INSTANCE);
      home.expireLeases();
      return runId;
    },
    decision: { row: "detached-orphaned", action: "sweep" },
    record: ended(
      "ownership-escape",
      "leader-file",
      { code: 6, signal: null },
      { ownerInstanceId: NEXT_INSTANCE, residueCount: 4 },
    ),
  },
  {
    name: "all processes gone, the cgroup empty: lost and proven",
    tier: tiers.cgroup,
    arrange: async (home, owner) => {
      const runId = await orphanRun(home, owner);
      await home.stopAnchors(FIRST_INSTANCE);
      await home.killStrays();
      return runId;
    },
    decision: { row: "swept", action: "lose" },
    record: lost("proven"),
  },
  {
    // All but the leader are alive.
    name: "nothing verifiable: lost, unproven, nothing signalled",
    arrange: async (home, owner) => killAll(home, owner, await liveRun(home, owner)),
    decision: { row: "unverifiable", action: "lose" },
    record: lost("unproven", "nothing was signalled"),
    untouched: true,
    end: (home) => home.killStrays(),
  },
];
