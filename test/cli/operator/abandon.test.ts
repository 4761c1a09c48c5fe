import { describe, expect, test } from "vitest";
import { Freezer } from "../../anchor/freezer.js";
import { until } from "../../io/until.js";
import { Field, PAIR } from "../field.js";

const whyNoFreezer = Freezer.isThere
  ? null
  : "there is no version-1 freezer cgroup to make a process unkillable with";

async function refused(field: Field, runId: string, why: string): Promise<void> {
  const before = await field.record(runId);
  const result = await field.holdfast("runs", "abandon", runId, "--yes");
  expect(result).toMatchObject({ code: 3, stdout: "" });
  expect(result.stderr).toMatch(/^holdfast: [^\n]+ cannot be abandoned: [^\n]+Nothing was changed\n$/);
  expect(result.stderr).toContain(why);
  expect(await field.record(runId)).toEqual(before);
}

describe.concurrent("runs abandon", () => {
  test("is refused while nobody has survived a KILL, and changes nothing", async () => {
    await using field = await Field.open();
    const [runId = ""] = await field.leave(["trap '' TERM; echo up; while :; do sleep 0.05; done"]);
    await refused(field, runId, "it has not been stopped");
    const cancelled = field.holdfast("runs", "cancel", runId, "--grace", "3s");
    await until("the anchor has been asked to stop it", async () => {
      const { stderr } = await field.holdfast("runs", "abandon", runId, "--yes");
      return stderr.includes("survived");
    });
    expect(await cancelled).toMatchObject({ code: 0 });
    await refused(field, runId, "no anchor answers for it");
    expect(await field.holdfast("runs", "abandon", "zzzz", "--yes")).toMatchObject({ code: 1 });
  });

  test("ends a run on record that has an unkillable process, as lost, and names who is left", async (context) => {
    if (whyNoFreezer !== null) context.skip(whyNoFreezer);
    await using field = await Field.open();
    await using freezer = new Freezer();
    const [runId = ""] = await field.orphan([PAIR, { graceMs: 100 }]);
    const gateway = await field.gateway();
    const root = (await field.record(runId)).root?.pid ?? 0;
    const survivor = (await field.membersOf(runId)).find((pid) => pid !== root) ?? 0;
    freezer.freeze(survivor);

    const cancelled = await field.holdfast("runs", "cancel", runId, "--json");
    expect(cancelled.code).toBe(3);
    expect(JSON.parse(cancelled.stdout)).toMatchObject({
      outcome: "survivors",
      survivors: [{ pid: survivor, kind: "unkillable", command: "sleep" }],
    });
    const cleaned = await field.holdfast("runs", "cleanup", "--run", runId, "--yes");
    expect(cleaned.code).toBe(3);
    expect(cleaned.stdout).toContain(`  ${survivor} sleep (unkillable)\n`);
    expect(await field.record(runId)).toMatchObject({ state: "exiting", exit: null });

    const unasked = await field.holdfast("runs", "abandon", runId);
    expect(unasked).toMatchObject({ code: 2, stdout: "" });
    expect(unasked.stderr).toContain("--yes");
    expect(await field.holdfast("runs", "abandon", runId, "--yes")).toMatchObject({
      code: 0,
      stdout: `${runId} was abandoned; left: ${survivor} sleep (unkillable)\n`,
    });
    expect(await field.ended(runId)).toMatchObject({
      exit: { reason: "lost", actor: expect.stringMatching(/^cli:/) },
      emptiness: "unproven",
      residue: [{ pid: survivor, kind: "unkillable" }],
    });
    await gateway.kill("SIGTERM");
  });
});
