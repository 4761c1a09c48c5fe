import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { printed, textOf } from "../supervisor/real-supervisor.js";
import { House } from "./house.js";
import { FIRST, NEXT, orphan } from "./orphan.js";

/** As somebody writes who is wrong about it. */
const ENDED = {
  state: "exited",
  ended_at: Date.now(),
  exit_reason: "lost",
  exit_actor: "",
  exit_source: "none",
  emptiness: "unproven",
};

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
