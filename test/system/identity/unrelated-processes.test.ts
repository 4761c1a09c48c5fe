import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PidNamespaces, canCreatePidNamespace } from "./pid-namespaces.js";

interface Fate {
  readonly alive: boolean;
  readonly stopped: boolean;
  readonly signals: readonly number[];
}

interface Faked {
  readonly live: number;
  readonly received: readonly string[];
  readonly state: string;
  readonly exit: { readonly reason: string; readonly source: string } | null;
  readonly root: unknown;
  readonly recorded: unknown;
  readonly fate: Fate;
}

interface Answer {
  readonly code: number | null;
  readonly signal: string | null;
  readonly result: { readonly verified: boolean; readonly killed: number } | null;
  /** True if the requesting shell is alive; absent: there was none. */
  readonly shell?: boolean;
  readonly bystanders: readonly Fate[];
}

const untouched: Fate = { alive: true, stopped: false, signals: [] };
const tiers = ["", "inode", "pidfd"] as const;

describe.skipIf(!canCreatePidNamespace())("an unrelated process", () => {
  let namespaces: PidNamespaces;
  const faked = new Map<string, Promise<Faked>>();
  const refused = new Map<string, Promise<Record<string, Answer | null>>>();

  beforeAll(async () => {
    namespaces = await PidNamespaces.open();
    for (const claim of ["innocent", "echo"])
      faked.set(claim, namespaces.runDriver("fake-anchor", [claim]) as Promise<Faked>);
    for (const tier of tiers) {
      const env = { HOLDFAST_ANCHOR_WEAKEN: tier };
      const answers = namespaces.runDriver("refusals", [], env) as Promise<Record<string, Answer | null>>;
      refused.set(tier, answers);
    }
    // The tests report failures.
    await Promise.allSettled([...faked.values(), ...refused.values()]);
  });

  afterAll(() => namespaces[Symbol.asyncDispose]());

  test("that answers on a dead anchor's socket cannot make a bystander the root", async () => {
    const outcome = await faked.get("innocent");
    expect(outcome?.fate).toEqual(untouched);
    expect(outcome?.root).toEqual(outcome?.recorded);
    expect(outcome).toMatchObject({ state: "exited", exit: { reason: "lost", source: "none" } });
  });

  test("that answers on a dead anchor's socket cannot report an end of the run", async () => {
    const outcome = await faked.get("echo");
    expect(outcome?.fate).toEqual(untouched);
    expect(outcome).toMatchObject({ state: "exited", exit: { reason: "lost", source: "none" } });
  });

  describe.each(tiers)("that must never be signalled, weakened by '%s':", (tier) => {
    test.for([
      "PID 1",
      "no number",
      "a negative number",
      "every process",
      "a group",
      "a number out of range",
      "no evidence at all",
      "ourselves",
      "our parent",
      "our own group",
      "our own cgroup",
    ])("%s is refused at once, and no process is signalled", async (whom, { skip }) => {
      const answer = (await refused.get(tier))?.[whom];
      if (answer === null && whom === "our own cgroup") skip("no cgroup can be created here");
      expect(
        answer?.bystanders.every((fate) => fate.alive && !fate.stopped && fate.signals.length === 0),
      ).toBe(true);
      expect(answer?.shell ?? true).toBe(true);
      expect(answer?.signal).toBeNull();
      if (answer?.code === 0) expect(answer.result).toMatchObject({ killed: 0 });
      else expect(answer).toMatchObject({ code: 2, result: null });
    });
  });
});
