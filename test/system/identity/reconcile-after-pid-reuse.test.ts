import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PidNamespaces, canCreatePidNamespace } from "./pid-namespaces.js";

interface Decided {
  readonly decisions: readonly { readonly runId: string; readonly row: string; readonly action: string }[];
  readonly runId: string;
  readonly unchanged: boolean;
  readonly state: string;
  readonly reason: string;
  readonly emptiness: string;
  readonly reconcileEvents: number;
}

interface Outcome {
  readonly byBystanders: Decided & { readonly fates: readonly object[] };
  readonly byARun: Decided & {
    readonly sameNumber: boolean;
    readonly exit: { readonly reason: string; readonly code: number };
    readonly leaseEpoch: number;
  };
}

const driver = new URL("children/reconcile-after-pid-reuse.mjs", import.meta.url);
const untouched = { alive: true, stopped: false, signals: [] };
/** With unique ids, and with start times only. */
const tiers = ["cgroup", "cgroup,inode"] as const;

describe.skipIf(!canCreatePidNamespace())("a dead run whose pid was reused", () => {
  let namespaces: PidNamespaces;
  const outcomes = new Map<string, Promise<Outcome>>();

  beforeAll(async () => {
    namespaces = await PidNamespaces.open();
    for (const tier of tiers)
      outcomes.set(
        tier,
        namespaces.runDriver(driver, [], { HOLDFAST_ANCHOR_WEAKEN: tier }) as Promise<Outcome>,
      );
    // The tests report failures.
    await Promise.allSettled(outcomes.values());
  });
  afterAll(() => namespaces[Symbol.asyncDispose]());

  async function outcomeOf(tier: string): Promise<Outcome> {
    const outcome = await outcomes.get(tier);
    if (outcome === undefined) throw new Error(`no outcome for ${tier}`);
    return outcome;
  }

  function lost({ decisions, runId, unchanged, state, reason, emptiness, reconcileEvents }: Decided): void {
    const decision = decisions.find((each) => each.runId === runId);
    expect(decision).toMatchObject({ row: "unverifiable", action: "lose" });
    expect({ unchanged, state, reason, emptiness, reconcileEvents }).toEqual({
      unchanged: true,
      state: "exited",
      reason: "lost",
      emptiness: "unproven",
      reconcileEvents: 1,
    });
  }

  test.for(tiers)(
    "by an unrelated process, weakened by '%s': it is lost, and the process is not signalled",
    async (tier) => {
      const { byBystanders } = await outcomeOf(tier);
      lost(byBystanders);
      expect(byBystanders.fates).toEqual([untouched, untouched, untouched]);
    },
  );

  test.for(tiers)(
    "by another gateway's run, weakened by '%s': it is lost, the other run continues",
    async (tier) => {
      const { byARun } = await outcomeOf(tier);
      expect(byARun.sameNumber).toBe(true);
      lost(byARun);
      expect(byARun.exit).toMatchObject({ reason: "exit", code: 9 });
      expect(byARun.leaseEpoch).toBe(1);
    },
  );
});
