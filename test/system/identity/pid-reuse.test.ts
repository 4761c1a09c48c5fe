import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PidNamespaces, canCreatePidNamespace } from "./pid-namespaces.js";

/** Collisions are made for each kind of stranger, once for `reap` and once for `recover()`, per round. */
const ROUNDS = process.env["HOLDFAST_SOAK"] === "1" ? 25 : 2;

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

/** The strength of identities, weaker and weaker; and without cgroups. */
const tiers = ["", "cgroup", "inode", "cgroup,inode", "pidfd", "cgroup,pidfd"] as const;

const strangers = [
  "who knows nothing of us",
  "with another lease in its environment",
  "with a lease that begins like the recorded one",
  "who leads a session of its own",
  "who leads a session of its own and has no environment",
  "outside the recorded cgroup",
  "in a cgroup made anew where the recorded one was",
] as const;

describe.skipIf(!canCreatePidNamespace())("on a number that was ours, in the same clock tick,", () => {
  const outcomes = new Map<string, Promise<Outcome>>();
  let namespaces: PidNamespaces;

  beforeAll(async () => {
    namespaces = await PidNamespaces.open();
    const drive = (tier: string): Promise<unknown> =>
      namespaces.runDriver("pid-reuse", [String(ROUNDS)], { HOLDFAST_ANCHOR_WEAKEN: tier });
    for (const tier of tiers) outcomes.set(tier, drive(tier) as Promise<Outcome>);
    // Failures are the tests' to report.
    await Promise.allSettled(outcomes.values());
    for (const [tier, outcome] of outcomes) {
      const { effort } = await outcome.catch(() => ({ effort: null }));
      if (effort === null) continue;
      const { tries, sameNumber, collisions } = effort;
      console.log(
        `${tier || "full"} tier: ${tries} numbers reused, ${sameNumber} of them hit, ${collisions} collisions of pid and start time`,
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

    test.for(strangers)("a stranger %s is left alone by reap and by recover()", async (kind, { skip }) => {
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

    test("strangers on the numbers of a whole dead run are left alone", async () => {
      const { restarted } = await outcomeOf(tier);
      expect(restarted).toMatchObject({ live: 0, unchanged: true, state: "exited", reason: "lost" });
      expect(restarted.fates).toEqual([untouched, untouched, untouched]);
    });

    test("and what is ours is ended, or said not to be", async () => {
      const { control } = await outcomeOf(tier);
      expect(control.matches).toBe(true);
      const { result, fate } = control;
      // Without handles nothing but a child may be signalled; then nothing may be claimed either.
      const handles = !tier.includes("pidfd");
      expect(fate.alive).toBe(!handles);
      expect({ killed: result.killed, survivors: result.survivors.length }).toEqual(
        handles ? { killed: 1, survivors: 0 } : { killed: 0, survivors: 1 },
      );
    });
  });
});
