import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { Supervisor } from "../../src/supervisor/api.js";
import type { Action, Row } from "../../src/supervisor/reconcile/decide.js";
import { signal, until } from "../tree/living.js";
import { tiers, type Tier } from "../tree/seat.js";
import { goneFromSight, hit, type House } from "./house.js";
import type { Keeper } from "./keeper.js";
import { FIRST, graceMs, NEXT } from "./orphan.js";

/** A row of the table, or a case of one. */
export interface Case {
  readonly name: string;
  readonly tier?: Tier;
  readonly settleMs?: number;
  /** Brings a run into that case, and says which it is. */
  arrange(house: House, keeper: Keeper): Promise<string>;
  /** Who looks. Default: another instance. */
  readonly by?: typeof FIRST;
  readonly decision: { readonly row: Row; readonly action: Action };
  /** A healthy run is not even looked at: no decision, no event. */
  readonly told?: 0;
  readonly record: object;
  /** Who of the run lives on: of those who were there. */
  readonly alive: "nobody" | "everybody";
  /** Ends what was rightly left alone. */
  end?(house: House, keeper: Keeper, next: Supervisor, runId: string): Promise<void>;
}

const lost = (emptiness: string, more: object = {}): object => ({
  state: "exited",
  ownerInstanceId: NEXT,
  emptiness,
  exit: { reason: "lost", actor: "", code: null, signal: null, source: "none", ...more },
});
const running = (owner: string): object => ({ state: "running", ownerInstanceId: owner, exit: null });

/** A run with everybody there, whose owner was killed. */
async function orphaned(house: House, keeper: Keeper, options: object = {}): Promise<string> {
  const { runId } = await keeper.spawn(house.scenario, { graceMs, ...options });
  await house.crowd.complete();
  await keeper.kill();
  house.expireLeases();
  return runId;
}

/** The same, of which the record says something else. */
function orphanedBut(columns: Readonly<Record<string, string>>): Case["arrange"] {
  return async (house, keeper) => {
    const runId = await orphaned(house, keeper);
    house.edit(runId, columns);
    return runId;
  };
}

/** The keeper is killed at that step of a spawn. */
function interrupted(step: Parameters<Keeper["stopAt"]>[0], script: string): Case["arrange"] {
  return async (house, keeper) => {
    await keeper.stopAt(step);
    keeper.order("spawn", { input: house.script(script), options: { graceMs } });
    await keeper.arrived();
    await keeper.kill();
    house.expireLeases();
    return house.onlyRun();
  };
}

/** Wrapper, child and grandchild, all of whom somebody else must end. */
function threeGenerations(before: string): Case["arrange"] {
  return async (house, keeper) => {
    const { token } = house.crowd;
    const script = `${before} sh -c '${before} sleep 100001.${token} & wait; : ${token}' & wait; : ${token}`;
    const { runId } = await keeper.spawn(house.script(script), { graceMs });
    await until("all three are there", () => house.crowd.others().length === 3);
    await keeper.kill();
    await house.silence(FIRST);
    house.expireLeases();
    return runId;
  };
}

const cancelByOwner: Case["end"] = async (_, keeper, __, runId) => {
  keeper.cancel(runId);
  await keeper.hear("ended");
  await keeper.kill();
};
const cancelByNext: Case["end"] = async (_, __, next, runId) => {
  const run = next.run(runId);
  await run?.cancel();
  await run?.wait();
};
/** The truth is on record again: now it is decided. */
const restore =
  (column: "host_id" | "boot_id" | "pid_namespace"): NonNullable<Case["end"]> =>
  async (house, _, next, runId) => {
    house.edit(runId, { [column]: (await house.machine())[column] });
    house.expireLeases();
    const { runs } = await next.reconcile({ terminate: true });
    expect((await runs[0]?.wait())?.exit?.reason).toBe("owner-lost");
  };

export const cases: readonly Case[] = [
  {
    name: "lease healthy, another owner: not touched",
    arrange: async (house, keeper) => {
      const { runId } = await keeper.spawn(house.scenario, { graceMs });
      await house.crowd.complete();
      return runId;
    },
    decision: { row: "healthy", action: "leave" },
    told: 0,
    record: running(FIRST),
    alive: "everybody",
    end: cancelByOwner,
  },
  {
    name: "lease expired, but its owner only sleeps: not touched, and it goes on with it",
    arrange: async (house, keeper) => {
      const { runId } = await keeper.spawn(house.scenario, { graceMs });
      await house.crowd.complete();
      await keeper.stop();
      house.expireLeases();
      return runId;
    },
    decision: { row: "stalled", action: "leave" },
    record: running(FIRST),
    alive: "everybody",
    end: async (_, keeper, __, runId) => {
      keeper.goOn();
      await keeper.write(runId, "exit 4\n");
      expect((await keeper.hear("ended")).record).toMatchObject({
        exit: { code: 4 },
        ownerInstanceId: FIRST,
      });
      await keeper.kill();
    },
  },
  {
    name: "another host: never signalled, never finalized",
    arrange: orphanedBut({ host_id: "another" }),
    decision: { row: "elsewhere", action: "leave" },
    record: running(FIRST),
    alive: "everybody",
    end: restore("host_id"),
  },
  {
    name: "another boot of an instance that is not local: never signalled, never finalized",
    arrange: orphanedBut({ boot_id: "another", owner_instance_id: "in_far" }),
    decision: { row: "elsewhere", action: "leave" },
    record: running("in_far"),
    alive: "everybody",
    end: async (house, keeper, next, runId) => {
      house.edit(runId, { owner_instance_id: FIRST });
      await restore("boot_id")(house, keeper, next, runId);
    },
  },
  {
    name: "another PID namespace: never signalled, never finalized",
    arrange: orphanedBut({ pid_namespace: "pid:[1]" }),
    decision: { row: "elsewhere", action: "leave" },
    record: running(FIRST),
    alive: "everybody",
    end: restore("pid_namespace"),
  },
  {
    name: "another PID namespace, but mine, and its anchor answers: continued",
    by: FIRST,
    arrange: orphanedBut({ pid_namespace: "pid:[1]" }),
    decision: { row: "anchor-alive", action: "continue" },
    record: running(FIRST),
    alive: "everybody",
    end: cancelByNext,
  },
  {
    name: "another boot of a dead local instance: lost by restart, nobody signalled",
    arrange: orphanedBut({ boot_id: "another" }),
    decision: { row: "other-boot", action: "lose" },
    record: lost("proven", { detail: expect.stringContaining("restarted") as string }),
    // They are of this boot: that they live is the proof that nobody was signalled.
    alive: "everybody",
    end: async (house) => {
      for (const one of house.anchors(FIRST)) signal(one, "SIGTERM");
      await house.crowd.gone(5_000);
    },
  },
  {
    name: "another boot, mine: lost by restart, nobody signalled",
    by: FIRST,
    arrange: orphanedBut({ boot_id: "another" }),
    decision: { row: "other-boot", action: "lose" },
    record: { ...lost("proven"), ownerInstanceId: FIRST },
    alive: "everybody",
    end: async (house) => {
      for (const one of house.anchors(FIRST)) signal(one, "SIGTERM");
      await house.crowd.gone(5_000);
    },
  },
  {
    name: "exit file present: the true status",
    arrange: interrupted("end-heard", "exit 7"),
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
    arrange: async (house, keeper) => {
      const runId = await orphaned(house, keeper, { ownerLossMs: 50 });
      await house.crowd.gone(5_000);
      await until("its exit file is there", () =>
        existsSync(join(house.runDirectory({ originInstanceId: FIRST, runId }), "exit.json")),
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
    arrange: interrupted("inserted", "exit 7"),
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
    arrange: async (house, keeper) => {
      const runId = await interrupted("committed", "exit 7")(house, keeper);
      await until("its exit file is there", () =>
        existsSync(join(house.runDirectory({ originInstanceId: FIRST, runId }), "exit.json")),
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
    by: FIRST,
    arrange: orphaned,
    decision: { row: "anchor-alive", action: "continue" },
    record: { ...running(FIRST), leaseEpoch: 2 },
    alive: "everybody",
    end: cancelByNext,
  },
  {
    name: "anchor alive, lease stealable: adopted",
    arrange: orphaned,
    decision: { row: "anchor-alive", action: "adopt" },
    record: { ...running(NEXT), leaseEpoch: 2 },
    alive: "everybody",
    end: cancelByNext,
  },
  {
    name: "anchor alive, lease stealable, a service: adopted",
    arrange: (house, keeper) => orphaned(house, keeper, { kind: "service" }),
    decision: { row: "anchor-alive", action: "adopt" },
    record: { ...running(NEXT), kind: "service" },
    alive: "everybody",
    end: cancelByNext,
  },
  {
    name: "anchor alive, lease stealable, not to outlive its owner: terminated",
    arrange: (house, keeper) => orphaned(house, keeper, { onOrphan: "terminate" }),
    decision: { row: "anchor-alive", action: "terminate" },
    record: {
      state: "exited",
      ownerInstanceId: NEXT,
      emptiness: "proven",
      exit: { reason: "owner-lost", actor: `supervisor:${NEXT}`, signal: "SIGTERM", source: "anchor" },
      residueCount: 1,
    },
    alive: "nobody",
  },
  {
    name: "anchor dead, launcher alive: it has cleaned up",
    arrange: async (house, keeper) => {
      const { runId, anchor } = await keeper.spawn(house.scenario, { graceMs });
      await house.crowd.complete();
      await keeper.stop();
      hit(anchor, "SIGKILL");
      await until("the launcher says so", () =>
        existsSync(join(house.runDirectory({ originInstanceId: FIRST, runId }), "swept.json")),
      );
      await keeper.kill();
      house.expireLeases();
      return runId;
    },
    decision: { row: "swept", action: "lose" },
    record: lost("proven"),
    alive: "nobody",
  },
  {
    name: "anchor dead, root verified: a startup orphan with wrapper, child and grandchild is ended",
    arrange: threeGenerations(""),
    decision: { row: "root-alive", action: "sweep" },
    // Without a cgroup, nobody can say that no daemon had left the tree before.
    record: lost("unproven"),
    alive: "nobody",
  },
  {
    name: "anchor dead, root verified, TERM ignored by all: reaches KILL",
    arrange: threeGenerations('trap "" TERM;'),
    decision: { row: "root-alive", action: "sweep" },
    record: lost("unproven"),
    alive: "nobody",
  },
  {
    name: "anchor dead, root verified, with a cgroup: everybody, the daemon too",
    tier: tiers.cgroup,
    arrange: async (house, keeper) => {
      const runId = await orphaned(house, keeper);
      await house.silence(FIRST);
      return runId;
    },
    decision: { row: "root-alive", action: "sweep" },
    record: lost("proven"),
    alive: "nobody",
  },
  {
    name: "anchor dead, root gone, boundary not empty: swept, and lost",
    tier: tiers.cgroup,
    arrange: async (house, keeper) => {
      const { runId, root } = await keeper.spawn(house.scenario, { graceMs });
      await house.crowd.complete();
      await keeper.kill();
      await house.silence(FIRST);
      hit(root, "SIGKILL");
      await goneFromSight(root);
      house.expireLeases();
      return runId;
    },
    decision: { row: "detached-orphaned", action: "sweep" },
    record: lost("proven", { detail: expect.stringContaining("were ended here") as string }),
    alive: "nobody",
  },
  {
    name: "anchor dead, leader ended by itself, boundary not empty: an escape, with the leader's status",
    tier: tiers.cgroup,
    settleMs: 60_000,
    arrange: async (house, keeper) => {
      const { runId, root } = await keeper.spawn(house.scenario, { graceMs });
      await house.crowd.complete();
      await keeper.write(runId, "exit 6\n");
      await goneFromSight(root);
      await until("its status is noted", () =>
        existsSync(join(house.runDirectory({ originInstanceId: FIRST, runId }), "leader.json")),
      );
      await keeper.kill();
      await house.silence(FIRST);
      house.expireLeases();
      return runId;
    },
    decision: { row: "detached-orphaned", action: "sweep" },
    record: {
      state: "exited",
      ownerInstanceId: NEXT,
      emptiness: "proven",
      exit: { reason: "ownership-escape", code: 6, signal: null, source: "leader-file" },
      residueCount: 4,
    },
    alive: "nobody",
  },
  {
    name: "anchor dead, everybody gone, boundary empty: lost, and that is proven",
    tier: tiers.cgroup,
    arrange: async (house, keeper) => {
      const runId = await orphaned(house, keeper);
      await house.silence(FIRST);
      for (const one of house.crowd.others()) signal(one, "SIGKILL");
      await house.crowd.gone(5_000);
      return runId;
    },
    decision: { row: "swept", action: "lose" },
    record: lost("proven"),
    alive: "nobody",
  },
  {
    name: "nothing verifiable: lost, unproven, nobody signalled, and it is said what is not known",
    arrange: async (house, keeper) => {
      const { runId, root } = await keeper.spawn(house.scenario, { graceMs });
      await house.crowd.complete();
      await keeper.kill();
      await house.silence(FIRST);
      hit(root, "SIGKILL");
      await goneFromSight(root);
      house.expireLeases();
      return runId;
    },
    decision: { row: "unverifiable", action: "lose" },
    record: lost("unproven", { detail: expect.stringContaining("nothing was signalled") as string }),
    // All but the leader.
    alive: "everybody",
    end: (house) => house.endOthers(),
  },
  {
    name: "stale lease with a missing process: lost, unproven",
    arrange: async (house, keeper) => {
      const { token } = house.crowd;
      const { runId, root } = await keeper.spawn({ io: "pipe", argv: ["sleep", `100001.${token}`] });
      await keeper.kill();
      await house.silence(FIRST);
      hit(root, "SIGKILL");
      await goneFromSight(root);
      house.expireLeases();
      return runId;
    },
    decision: { row: "unverifiable", action: "lose" },
    record: lost("unproven"),
    alive: "nobody",
  },
];
