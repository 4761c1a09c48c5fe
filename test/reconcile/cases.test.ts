import { spawnSync } from "node:child_process";
import { chmodSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { SpawnOptions, Supervisor } from "../../src/supervisor/api.js";
import { printed, textOf } from "../supervisor/real-supervisor.js";
import { until } from "../tree/living.js";
import { tiers, type Tier } from "../tree/seat.js";
import { House } from "./house.js";
import type { Keeper } from "./keeper.js";

const FIRST = "in_first";
const NEXT = "in_next";
const graceMs = 200;

/** As somebody writes who is wrong about it. */
const ENDED = {
  state: "exited",
  ended_at: Date.now(),
  exit_reason: "lost",
  exit_actor: "",
  exit_source: "none",
  emptiness: "unproven",
};

async function orphan(house: House, options: SpawnOptions = {}): Promise<string> {
  const keeper = await house.keeper(FIRST);
  const { runId } = await keeper.spawn(house.scenario, { graceMs, ...options });
  await house.crowd.complete();
  await keeper.kill();
  house.expireLeases();
  return runId;
}

/** Three who go when they are asked: what has no record has the usual grace, which is long. */
async function docile(house: House): Promise<string> {
  const { token } = house.crowd;
  const keeper = await house.keeper(FIRST);
  const script = `setsid sleep 100003.${token} & sleep 100001.${token}; :`;
  const { runId } = await keeper.spawn(house.script(script));
  await until("all three are there", () => house.crowd.others().length === 3);
  await keeper.kill();
  return runId;
}

async function end(supervisor: Supervisor, runId: string): Promise<void> {
  const run = supervisor.run(runId);
  await run?.cancel();
  expect(await run?.wait()).toMatchObject({ exit: { reason: "manual-cancel" }, emptiness: "proven" });
}

describe.concurrent("a run whose owner was killed", () => {
  test("goes on under its new owner: output continues, input arrives, the exit code is true", async () => {
    await using house = await House.open();
    const keeper = await house.keeper(FIRST);
    const script = `echo first; read a; echo "got $a"; read b; echo "got $b"; exit 9`;
    const { runId } = await keeper.spawn(house.script(script));
    await keeper.printed("first\n");
    await keeper.write(runId, "one\n");
    await keeper.printed("got one\n");
    await keeper.kill();
    house.expireLeases();
    const gateway = await house.gateway();
    const run = gateway.supervisor.run(runId);
    if (run === null) throw new Error("it was not adopted");
    await printed(run, "first\ngot one\n");
    await run.write("two\n");
    expect((await textOf(run)).stdout).toBe("first\ngot one\ngot two\n");
    expect(await run.wait()).toMatchObject({
      ownerInstanceId: gateway.instanceId,
      originInstanceId: FIRST,
      leaseEpoch: 2,
      exit: { reason: "exit", code: 9, source: "anchor" },
      emptiness: "proven",
    });
    expect(house.eventTypes(runId).filter((type) => type !== "output")).toEqual([
      "spawn",
      "reconcile",
      "exit",
    ]);
    expect(house.news).toContainEqual(
      expect.objectContaining({ type: "decision", runId, row: "anchor-alive", action: "adopt" }),
    );
  });

  test("and whose record somebody else has ended: its tree is terminated when the owner returns", async () => {
    await using house = await House.open();
    const runId = await orphan(house);
    house.edit(runId, ENDED);
    const ended = house.everything();

    const returned = await house.supervisor(FIRST);
    expect(await returned.reconcile()).toEqual({ decisions: [], runs: [] });
    await house.crowd.gone(5_000);
    expect(house.everything()).toEqual(ended);
    await returned.reconcile();
    expect(house.everything()).toEqual(ended);
  });
});

/** The anchor binary that supervisors of this house ask, replaced by one that cannot tell anything. */
function blind(house: House): () => void {
  const directory = join(house.home, "bin");
  const [name] = readdirSync(directory);
  const path = join(directory, name ?? "");
  renameSync(path, `${path}.kept`);
  writeFileSync(path, "#!/bin/sh\nexit 1\n");
  chmodSync(path, 0o700);
  return () => renameSync(`${path}.kept`, path);
}

test.concurrent("behind an ended record, an anchor that does not answer is asked again", async () => {
  await using house = await House.open();
  const runId = await orphan(house, { kind: "service" });
  house.edit(runId, ENDED);
  const key = join(house.runDirectory({ originInstanceId: FIRST, runId }), "key");
  const kept = readFileSync(key);
  writeFileSync(key, "0".repeat(kept.length));
  const next = await house.supervisor(NEXT);
  await next.reconcile();
  expect(house.crowd.others()).toHaveLength(5);
  writeFileSync(key, kept);
  await next.reconcile();
  await house.crowd.gone(5_000);
});

describe.concurrent("when processes cannot be looked at", () => {
  const situations: readonly { name: string; tier: Tier; silence: boolean; row: string }[] = [
    { name: "a run with a live anchor", tier: tiers.none, silence: false, row: "anchor-alive" },
    { name: "a run with a dead anchor", tier: tiers.none, silence: true, row: "root-alive" },
    { name: "a run with a dead anchor and a cgroup", tier: tiers.cgroup, silence: true, row: "root-alive" },
  ];
  for (const { name, tier, silence, row } of situations)
    test(`${name} is neither signalled nor ended; when they can be again, it is decided`, async ({
      skip,
    }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using house = await House.open(tier);
      const runId = await orphan(house, { onOrphan: "terminate" });
      if (silence) await house.silence(FIRST);
      const next = await house.supervisor(NEXT);
      const before = house.alive();
      const see = blind(house);
      const { decisions } = await next.reconcile();
      expect(decisions).toMatchObject([{ runId, row: "unseen", action: "leave" }]);
      expect(house.alive()).toEqual(before);
      expect(await next.getRun(runId)).toMatchObject({ state: "running", ownerInstanceId: FIRST });
      const once = house.everything();
      await next.reconcile();
      expect(house.everything()).toEqual(once);
      expect(house.problems).toMatchObject([{ runId }]);

      see();
      expect((await next.reconcile()).decisions).toMatchObject([{ runId, row }]);
      await house.ended(runId);
      expect(house.decisions(runId).map((each) => each.row)).toEqual(["unseen", row]);
      // Without a cgroup nobody can find a daemon that carries no marker.
      if (silence && tier === tiers.none) {
        expect(house.crowd.others()).toHaveLength(1);
        await house.endOthers();
      } else await house.crowd.gone(5_000);
      await house.tidy(next);
    });
});

test.concurrent("processes cannot be looked at in the midst of a sweep: it is finished when they can", async ({
  skip,
}) => {
  if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
  await using house = await House.open(tiers.cgroup);
  const runId = await orphan(house);
  await house.silence(FIRST);
  const next = await house.keeper(NEXT);
  await next.stopAt("reaping");
  next.order("reconcile", { scope: {} });
  await next.arrived();
  const before = house.alive();
  const see = blind(house);
  next.goOn();
  await next.hear("reconciled");
  expect((await next.hear("problem")).message).toContain("cannot find out yet");
  expect(house.alive()).toEqual(before);
  expect(house.column(runId, "state")).toBe("running");
  see();
  await house.ended(runId);
  expect(house.crowd.others()).toEqual([]);
  expect(house.sql("select * from runs")).toMatchObject([{ exit_reason: "lost", emptiness: "proven" }]);
  expect(house.decisions(runId)).toHaveLength(1);
  await next.close();
  await house.tidy(await house.supervisor("in_tidy"));
});

describe.concurrent("a run directory without a record", () => {
  test("whose anchor dies while it is given one: its tree is ended all the same", async ({ skip }) => {
    if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
    await using house = await House.open(tiers.cgroup);
    const runId = await docile(house);
    house.sql("delete from runs");
    house.sql("delete from run_events");
    const next = await house.keeper(NEXT);
    await next.stopAt("inserted");
    next.order("reconcile", { scope: {} });
    await next.arrived();
    await house.silence(FIRST);
    next.goOn();
    await house.ended(runId);
    expect(house.crowd.others()).toEqual([]);
    expect(house.sql("select * from runs")).toMatchObject([{ exit_reason: "lost", emptiness: "proven" }]);
    expect(house.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(1);
    await next.close();
    await house.tidy(await house.supervisor("in_tidy"));
  });

  for (const [whose, by] of [
    ["mine", FIRST],
    ["a dead instance's", NEXT],
  ] as const) {
    test(`${whose}, whose anchor lives: gets a record and goes on`, async () => {
      await using house = await House.open();
      const runId = await orphan(house);
      house.sql("delete from runs");
      house.sql("delete from run_events");
      const next = await house.supervisor(by);
      const { decisions, runs } = await next.reconcile();
      expect(decisions).toEqual([]);
      expect(runs.map((run) => run.runId)).toEqual([runId]);
      await until("it runs", () => house.column(runId, "state") === "running");
      expect(await next.getRun(runId)).toMatchObject({
        leaseId: "",
        ownerInstanceId: by,
        originInstanceId: FIRST,
        root: { pid: runs[0]?.rootPid },
      });
      expect(house.decisions(runId)).toMatchObject([{ row: "imported", action: "continue", by }]);
      expect(house.crowd.others()).toHaveLength(5);
      const once = house.everything();
      await next.reconcile();
      expect(house.everything()).toEqual(once);
      await end(next, runId);
      expect(house.eventTypes(runId)).toEqual(["reconcile", "spawn", "cancel", "cleanup", "exit"]);
    });

    test(`${whose}, that is over: gets a record with the true end`, async () => {
      await using house = await House.open();
      const keeper = await house.keeper(FIRST);
      await keeper.stopAt("end-heard");
      keeper.order("spawn", { input: house.script("exit 7") });
      await keeper.arrived();
      await keeper.kill();
      const runId = house.onlyRun();
      house.sql("delete from runs");
      house.sql("delete from run_events");
      const next = await house.supervisor(by);
      expect(await next.reconcile()).toEqual({ decisions: [], runs: [] });
      expect(await next.getRun(runId)).toMatchObject({
        state: "exited",
        emptiness: "proven",
        exit: { reason: "exit", code: 7, source: "exit-file" },
      });
      expect(house.eventTypes(runId)).toEqual(["reconcile", "spawn", "exit"]);
      const once = house.everything();
      await next.reconcile();
      expect(house.everything()).toEqual(once);
    });
  }

  test("of an instance that lives: is left to it", async () => {
    await using house = await House.open();
    const keeper = await house.keeper(FIRST);
    const { runId } = await keeper.spawn(house.scenario, { graceMs });
    await house.crowd.complete();
    const [row = {}] = house.sql("select * from runs");
    house.sql("delete from runs");
    const next = await house.supervisor(NEXT);
    expect(await next.reconcile()).toEqual({ decisions: [], runs: [] });
    expect(await next.listRuns()).toEqual([]);
    expect(house.crowd.others()).toHaveLength(5);
    const names = Object.keys(row);
    house.sql(
      `insert into runs (${names.join(", ")}) values (${names.map(() => "?").join(", ")})`,
      ...(Object.values(row) as string[]),
    );
    keeper.cancel(runId);
    await keeper.hear("ended");
  });
});

describe.concurrent("a cgroup without a record and without a directory", () => {
  for (const [whose, by] of [
    ["mine", FIRST],
    ["a dead instance's", NEXT],
  ] as const)
    test(`${whose}: whoever is in it is ended, and that is on record`, async ({ skip }) => {
      if (tiers.cgroup.whyNot !== null) skip(tiers.cgroup.whyNot);
      await using house = await House.open(tiers.cgroup);
      const runId = await docile(house);
      await house.silence(FIRST);
      await rm(house.runDirectory({ originInstanceId: FIRST, runId }), { recursive: true });
      house.sql("delete from runs");
      house.sql("delete from run_events");
      const next = await house.supervisor(by);
      expect(await next.reconcile()).toEqual({ decisions: [], runs: [] });
      expect(house.crowd.others()).toEqual([]);
      expect(await next.getRun(runId)).toMatchObject({
        state: "exited",
        emptiness: "proven",
        exit: { reason: "lost", source: "none" },
        residueCount: 3,
      });
      expect(house.decisions(runId)).toMatchObject([{ row: "detached-orphaned", action: "sweep", by }]);
      expect(house.eventTypes(runId)).toEqual(["reconcile", "cleanup", "exit"]);
      const once = house.everything();
      await next.reconcile();
      expect(house.everything()).toEqual(once);
      await next.close();
      await house.tidy(await house.supervisor("in_tidy"));
    });
});

describe.concurrent("a copied state directory", () => {
  for (const tier of [tiers.none, tiers.cgroup])
    test(`its gateway touches none of the original's live runs: tier ${tier.name}`, async ({ skip }) => {
      if (tier.whyNot !== null) skip(tier.whyNot);
      await using house = await House.open(tier);
      const keeper = await house.keeper(FIRST);
      writeFileSync(join(house.home, "gateway-id"), `${FIRST}\n`, { mode: 0o600 });
      const { runId } = await keeper.spawn(house.scenario, { graceMs });
      await house.crowd.complete();
      // One whose owner is gone, too: in the copy nobody holds either's lock.
      const other = await house.keeper("in_other");
      const orphaned = await other.spawn(house.script("echo up; read a; exit 3"), { graceMs });
      await other.kill();
      const copy = join(house.seat.directory, "copy");
      expect(spawnSync("cp", ["-a", house.home, copy]).status).toBe(0);
      const before = house.everything();
      const lives = house.alive();

      house.expireLeases(1, copy);
      const gateway = await house.gateway(copy);
      expect(gateway.instanceId).toBe(FIRST);
      await gateway.supervisor.reconcile();
      for (const run of await gateway.supervisor.listRuns())
        expect({ runId: run.runId, state: run.state }).toEqual({ runId: run.runId, state: "running" });
      expect(house.alive()).toEqual(lives);
      expect(house.everything()).toEqual(before);
      await gateway.stop();

      await keeper.write(runId, "exit 5\n");
      expect((await keeper.hear("ended")).record).toMatchObject({
        exit: { reason: "ownership-escape", code: 5 },
        leaseEpoch: 1,
      });
      house.expireLeases();
      await finish(keeper, orphaned.runId);
    });
});

/** Takes the run over and lets it exit by itself. */
async function finish(keeper: Keeper, runId: string): Promise<void> {
  const { runIds } = await keeper.reconcile();
  expect(runIds).toEqual([runId]);
  await keeper.write(runId, "on\n");
  expect((await keeper.hear("ended")).record).toMatchObject({ exit: { reason: "exit", code: 3 } });
}
