import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { repetitions, soak } from "../../support/scale.js";
import { PidNamespaces, canCreatePidNamespace } from "./pid-namespaces.js";

/** Each round collides once for `reap` and once for `recover()`, per kind of bystander. */
const ROUNDS = repetitions(1, 25);

interface Fate {
  readonly alive: boolean;
  readonly stopped: boolean;
  readonly signals: readonly number[];
}

interface Reaped {
  readonly verified: boolean;
  readonly why: string;
  readonly killed: number;
  readonly survivors: readonly unknown[];
}

interface Outcome {
  readonly kinds: readonly string[];
  readonly effort: { readonly tries: number; readonly sameNumber: number; readonly collisions: number };
  readonly reaped: readonly {
    readonly kind: string;
    readonly alive: boolean;
    readonly matches: boolean;
    readonly result: Reaped;
    readonly fate: Fate;
  }[];
  readonly recovered: {
    readonly live: number;
    readonly unchanged: boolean;
    readonly ends: readonly {
      readonly kind: string;
      readonly state: string;
      readonly reason: string;
      readonly fate: Fate;
    }[];
  };
  readonly restarted: {
    readonly live: number;
    readonly unchanged: boolean;
    readonly state: string;
    readonly reason: string;
    readonly fates: readonly Fate[];
  };
  readonly control: { readonly matches: boolean; readonly result: Reaped; readonly fate: Fate };
}

const untouched: Fate = { alive: true, stopped: false, signals: [] };

/** Weaker and weaker identities, with and without cgroups. */
const tiers = ["", "inode", "cgroup,pidfd", ...(soak ? ["cgroup", "cgroup,inode", "pidfd"] : [])];

const bystanders = [
  "without a marker",
  "with another lease in its environment",
  "with a lease that begins like the recorded one",
  "that leads its own session",
  "that leads its own session and has no environment",
  "outside the recorded cgroup",
  "in a new cgroup at the recorded path",
] as const;

describe.skipIf(!canCreatePidNamespace())("a reused pid in the same clock tick,", () => {
  const outcomes = new Map<string, Promise<Outcome>>();
  let namespaces: PidNamespaces;

  beforeAll(async () => {
    namespaces = await PidNamespaces.open();
    const drive = (tier: string): Promise<unknown> =>
      namespaces.runDriver("pid-reuse", [String(ROUNDS)], { HOLDFAST_ANCHOR_WEAKEN: tier });
    for (const tier of tiers) outcomes.set(tier, drive(tier) as Promise<Outcome>);
    // The tests report failures.
    await Promise.allSettled(outcomes.values());
    for (const [tier, outcome] of outcomes) {
      const { effort } = await outcome.catch(() => ({ effort: null }));
      if (effort === null) continue;
      const { tries, sameNumber, collisions } = effort;
      console.log(
        `${tier || "full"} tier: ${tries} pids tried, ${sameNumber} reused, ${collisions} collisions of pid and start time`,
      );
    }
  });

  afterAll(() => namespaces[Symbol.asyncDispose]());

  async function outcomeOf(tier: string): Promise<Outcome> {
    const outcome = await outcomes.get(tier);
    if (outcome === undefined) throw new Error(`no outcome for ${tier}`);
    return outcome;
  }

  describe.each(tiers)("weakened by '%s':", (tier) => {
    const weak = /inode|pidfd/.test(tier);

    test.for(bystanders)("a bystander %s is left alone by reap and by recover()", async (kind, { skip }) => {
      const { kinds, reaped, recovered } = await outcomeOf(tier);
      if (!kinds.includes(kind) && kind.includes("cgroup")) skip("no cgroups here, or none to be used");
      const here = reaped.filter((each) => each.kind === kind);
      expect(here).toHaveLength(ROUNDS);
      for (const { fate, result } of here) {
        expect(fate, result.why).toEqual(untouched);
        expect(result.killed).toBe(0);
      }
      const ends = recovered.ends.filter((each) => each.kind === kind);
      expect(ends).toHaveLength(ROUNDS);
      for (const { state, reason, fate } of ends) {
        expect(fate).toEqual(untouched);
        expect({ state, reason }).toEqual({ state: "exited", reason: "lost" });
      }
    });

    test("inspect reports that the process is alive and is not the recorded one", async () => {
      const { reaped } = await outcomeOf(tier);
      for (const { alive, matches } of reaped) {
        expect(alive).toBe(true);
        // Without unique ids only the start time can be compared, and that is the same.
        expect(matches).toBe(weak);
      }
    });

    test("recover() ends every record once: a second time changes nothing", async () => {
      const { recovered } = await outcomeOf(tier);
      expect(recovered).toMatchObject({ live: 0, unchanged: true });
    });

    test("bystanders with the pids of a dead run are left alone", async () => {
      const { restarted } = await outcomeOf(tier);
      expect(restarted).toMatchObject({ live: 0, unchanged: true, state: "exited", reason: "lost" });
      expect(restarted.fates).toEqual([untouched, untouched, untouched]);
    });

    test("control: a process of the run is killed, or reported as a survivor", async () => {
      const { control } = await outcomeOf(tier);
      expect(control.matches).toBe(true);
      const { result, fate } = control;
      // Without pidfds only a child may be signalled.
      const handles = !tier.includes("pidfd");
      expect(fate.alive).toBe(!handles);
      expect({ killed: result.killed, survivors: result.survivors.length }).toEqual(
        handles ? { killed: 1, survivors: 0 } : { killed: 0, survivors: 1 },
      );
    });
  });
});
