import { describe, expect, test } from "vitest";
import { CgroupFreezer } from "../../support/anchor/cgroups.js";
import { RecoveryFixture, TWO_PROCESSES } from "../../support/cli/recovery-fixture.js";
import { scaled } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

const whyNoFreezer = CgroupFreezer.isAvailable
  ? null
  : "there is no version-1 freezer cgroup to make a process unkillable with";

async function refused(fixture: RecoveryFixture, runId: string, why: string): Promise<void> {
  const before = await fixture.record(runId);
  const result = await fixture.holdfast("runs", "abandon", runId, "--yes");
  expect(result).toMatchObject({ code: 3, stdout: "" });
  expect(result.stderr).toMatch(/^holdfast: [^\n]+ cannot be abandoned: [^\n]+Nothing was changed\n$/);
  expect(result.stderr).toContain(why);
  expect(await fixture.record(runId)).toEqual(before);
}

describe.concurrent("runs abandon", () => {
  test("is refused while no process has survived KILL, and changes nothing", async () => {
    await using fixture = await RecoveryFixture.open();
    const [runId = ""] = await fixture.leaveRuns(["trap '' TERM; echo up; while :; do sleep 0.05; done"]);
    await refused(fixture, runId, "it has not been stopped");
    // Another command has to start in the meantime.
    const cancelled = fixture.holdfast("runs", "cancel", runId, "--grace", `${scaled(3_000)}ms`);
    await waitFor("the anchor has the stop request", async () => {
      const { stderr } = await fixture.holdfast("runs", "abandon", runId, "--yes");
      return stderr.includes("survived");
    });
    expect(await cancelled).toMatchObject({ code: 0 });
    await refused(fixture, runId, "no anchor answers for it");
    expect(await fixture.holdfast("runs", "abandon", "zzzz", "--yes")).toMatchObject({ code: 1 });
  });

  test("ends the record of a run with an unkillable process as lost, and lists the process", async (context) => {
    if (whyNoFreezer !== null) context.skip(whyNoFreezer);
    await using fixture = await RecoveryFixture.open();
    await using freezer = new CgroupFreezer();
    const [runId = ""] = await fixture.leaveOrphans([TWO_PROCESSES, { graceMs: 100 }]);
    const gateway = await fixture.gateway();
    const root = (await fixture.record(runId)).root?.pid ?? 0;
    const survivor = (await fixture.membersOf(runId)).find((pid) => pid !== root) ?? 0;
    freezer.freeze(survivor);

    const cancelled = await fixture.holdfast("runs", "cancel", runId, "--json");
    expect(cancelled.code).toBe(3);
    expect(JSON.parse(cancelled.stdout)).toMatchObject({
      outcome: "survivors",
      survivors: [{ pid: survivor, kind: "unkillable", command: "sleep" }],
    });
    const cleaned = await fixture.holdfast("runs", "cleanup", "--run", runId, "--yes");
    expect(cleaned.code).toBe(3);
    expect(cleaned.stdout).toContain(`  ${survivor} sleep (unkillable)\n`);
    expect(await fixture.record(runId)).toMatchObject({ state: "exiting", exit: null });

    const unasked = await fixture.holdfast("runs", "abandon", runId);
    expect(unasked).toMatchObject({ code: 2, stdout: "" });
    expect(unasked.stderr).toContain("--yes");
    expect(await fixture.holdfast("runs", "abandon", runId, "--yes")).toMatchObject({
      code: 0,
      stdout: `${runId} was abandoned; left: ${survivor} sleep (unkillable)\n`,
    });
    expect(await fixture.waitForEnd(runId)).toMatchObject({
      exit: { reason: "lost", actor: expect.stringMatching(/^cli:/) },
      emptiness: "unproven",
      residue: [{ pid: survivor, kind: "unkillable" }],
    });
    await gateway.kill("SIGTERM");
  });
});
