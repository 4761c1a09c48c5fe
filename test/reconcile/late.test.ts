import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { until } from "../tree/living.js";
import { tiers, type Tier } from "../tree/seat.js";
import { House } from "./house.js";
import type { Keeper } from "./keeper.js";
import type { StepName } from "./steps.js";

const FIRST = "in_first";
const graceMs = 200;
/** What an owner must have been expired for before it counts as stuck, and a little more. */
const STALLED_MS = defaults.stalledOwnerMs + 1_000;

/** An orphan; whether its anchor lives. */
async function orphan(house: House, silenced: boolean): Promise<string> {
  const keeper = await house.keeper(FIRST);
  const { runId } = await keeper.spawn(house.scenario, { graceMs });
  await house.crowd.complete();
  await keeper.kill();
  if (silenced) await house.silence(FIRST);
  house.expireLeases();
  return runId;
}

async function stoppedAt(house: House, step: StepName): Promise<Keeper> {
  const late = await house.keeper("in_late");
  await late.stopAt(step);
  late.order("reconcile", { scope: {} });
  await late.arrived();
  return late;
}

describe.concurrent("a supervisor that stopped in the midst of taking over a run, and wakes when another has it,", () => {
  for (const step of ["looking", "stealing", "stolen", "attached"] as const)
    test(`at ${step}: leaves it to the other, with whom it goes on`, async () => {
      await using house = await House.open();
      const runId = await orphan(house, false);
      const late = await stoppedAt(house, step);
      house.expireLeases(STALLED_MS);
      const other = await house.supervisor("in_other");
      const [run] = (await other.reconcile()).runs;
      if (run === undefined) throw new Error("it was not taken over");
      const taken = house.everything();

      late.goOn();
      const { runIds } = await late.hear("reconciled");
      if (runIds.length > 0) expect(await late.hear("rejected")).toMatchObject({ runId, code: "LEASE_LOST" });
      expect(house.everything()).toEqual(taken);
      expect(house.crowd.others()).toHaveLength(5);
      const thieves = house.decisions(runId).map(({ by }) => by);
      const claimed = step === "stolen" || step === "attached";
      expect(thieves).toEqual(claimed ? ["in_late", "in_other"] : ["in_other"]);

      await run.write("exit 5\n");
      expect(await run.wait()).toMatchObject({
        exit: { reason: "ownership-escape", code: 5, source: "anchor" },
        ownerInstanceId: "in_other",
        emptiness: "proven",
      });
      expect(house.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(1);
      await late.close();
    });

  const sweeps: readonly StepName[] = ["stealing", "stolen", "reaping", "reaped", "end-saving", "end-saved"];
  const tier: Tier = tiers.cgroup;
  for (const step of sweeps)
    test(`at ${step} of one that nobody answers for: it has one end, told once`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using house = await House.open(tier);
      const runId = await orphan(house, true);
      const late = await stoppedAt(house, step);
      house.expireLeases(STALLED_MS);
      const other = await house.supervisor("in_other");
      await other.reconcile();
      await house.ended(runId);
      expect(house.crowd.others()).toEqual([]);
      const ended = house.everything();

      late.goOn();
      await late.hear("reconciled");
      expect(house.everything()).toEqual(ended);
      expect(house.sql("select * from runs")).toMatchObject([{ emptiness: "proven", exit_reason: "lost" }]);
      expect(house.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(1);
      await late.close();
      await house.tidy(other);
    });
});

test.concurrent("an owner robbed by one that died before it reached the anchor: lets go, names it, and the next goes on", async () => {
  await using house = await House.open();
  const keeper = await house.keeper(FIRST);
  const script = 'echo up; read a; echo "got $a"; read b; echo "got $b"; exit 6';
  const { runId } = await keeper.spawn(house.script(script), { graceMs });
  await keeper.printed("up");
  await keeper.stop();
  house.expireLeases(STALLED_MS);
  const thief = await stoppedAt(house, "stolen");
  await thief.kill();

  keeper.goOn();
  // It does not know yet; the first thing it has to record tells it.
  await keeper.write(runId, "one\n");
  await keeper.printed("got one");
  expect(await keeper.hear("problem")).toMatchObject({ runId, code: "LEASE_LOST", heldBy: "in_late" });
  expect(await keeper.hear("rejected")).toMatchObject({ runId, code: "LEASE_LOST" });

  house.expireLeases();
  const { supervisor } = await house.gateway();
  const run = supervisor.run(runId);
  if (run === null) throw new Error("it was not adopted");
  await run.write("two\n");
  expect(await run.wait()).toMatchObject({ exit: { reason: "exit", code: 6 }, leaseEpoch: 3 });
  await keeper.close();
});

test.concurrent("a supervisor stopped past its lease and not robbed goes on, and its lease is healthy again", async () => {
  await using house = await House.open();
  const keeper = await house.keeper("in_first");
  const { runId } = await keeper.spawn(house.script('echo up; read a; echo "got $a"; read b; exit 6'));
  await keeper.printed("up");
  await keeper.stop();
  house.expireLeases(defaults.leaseMs);
  const other = await house.supervisor("in_other");
  expect((await other.reconcile()).decisions).toMatchObject([{ row: "stalled", action: "leave" }]);
  keeper.goOn();
  await keeper.write(runId, "one\n");
  await keeper.printed("got one");
  const now = Number(house.column(runId, "lease_expires_at"));
  await until(
    "it has renewed its lease",
    () => Number(house.column(runId, "lease_expires_at")) > now + defaults.leaseMs,
    defaults.renewMs + 5_000,
  );
  expect((await other.reconcile()).decisions).toEqual([]);
  await keeper.write(runId, "two\n");
  expect((await keeper.hear("ended")).record).toMatchObject({ exit: { code: 6 }, leaseEpoch: 1 });
  expect(keeper.said("problem")).toEqual([]);
  await keeper.close();
});
