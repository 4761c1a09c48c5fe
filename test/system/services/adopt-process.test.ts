import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test, vi } from "vitest";
import type { RunRecord } from "../../../src/model/run.js";
import { isAlive, type LiveProcess, readProcess, signalProcess } from "../../support/live-processes.js";
import { type SandboxTier, tiers } from "../../support/sandbox.js";
import { SharedHome } from "../../support/supervisor/shared-home.js";
import type { SupervisorProcess } from "../../support/supervisor/supervisor-process.js";
import { soak } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";
import { answeringPid, freePort, serverScript } from "./dev-server.js";

/** Each test starts a supervisor in a process of its own, and many run at once. */
vi.setConfig({ testTimeout: 60_000 });

const FIRST = "in_first000";
const OPTIONS = { graceMs: 200, onEscape: "sweep", stdin: "pipe" } as const;

/** A leader with one child that has two children, and one that has none. The leader exits with 9 after a line of input. */
const FAMILY = `sh -c 'sleep 100001.$0 & sleep 100002.$0; true' $0 & sleep 100003.$0 & read line; exit 9`;

const growingFamily = fileURLToPath(new URL("children/process-family.sh", import.meta.url));
/** The first process, four children, and forty children of each. */
const GROWN_SIZE = 1 + 4 + 160;

function sleeper(home: SharedHome, number: number): LiveProcess | undefined {
  const { token } = home.tokenProcesses;
  return home.tokenProcesses.ofRuns().find(({ argv }) => argv[1] === `${number}.${token}`);
}

/** Stops a run and resolves with its record. */
async function stopped(owner: SupervisorProcess, runId: string): Promise<RunRecord> {
  owner.cancel(runId);
  const { record } = await owner.receive("ended");
  expect(record).toMatchObject({ runId, exit: { reason: "manual-cancel" }, emptiness: "proven" });
  return record;
}

/** A supervisor process with a running family, one child of which is to be adopted. */
class AdoptionFixture implements AsyncDisposable {
  readonly home: SharedHome;
  readonly owner: SupervisorProcess;
  readonly runId: string;
  /** The process to adopt. */
  readonly member: LiveProcess;
  /** It, and its children. */
  readonly leaving: readonly LiveProcess[];
  readonly staying: readonly LiveProcess[];

  private constructor(home: SharedHome, owner: SupervisorProcess, runId: string, member: LiveProcess) {
    this.home = home;
    this.owner = owner;
    this.runId = runId;
    this.member = member;
    const all = home.tokenProcesses.ofRuns();
    this.leaving = all.filter(({ pid, parentPid }) => pid === member.pid || parentPid === member.pid);
    this.staying = all.filter((one) => !this.leaving.includes(one));
  }

  static async open(tier: SandboxTier): Promise<AdoptionFixture> {
    const home = await SharedHome.open(tier);
    try {
      const owner = await home.supervisorProcess(FIRST);
      const { runId, root } = await owner.spawn(home.script(FAMILY), OPTIONS);
      const child = await waitFor("the family is complete", () => {
        const one = sleeper(home, 100_001);
        return one !== undefined && sleeper(home, 100_002) && sleeper(home, 100_003) && one;
      });
      const member = readProcess(child.parentPid);
      if (member === null || member.parentPid !== root?.pid) throw new Error("the family has another shape");
      return new AdoptionFixture(home, owner, runId, member);
    } catch (error) {
      await home[Symbol.asyncDispose]();
      throw error;
    }
  }

  adopt(): ReturnType<SupervisorProcess["adoptProcess"]> {
    return this.owner.adoptProcess(this.member.pid);
  }

  expectAlive(...groups: ("leaving" | "staying")[]): void {
    for (const group of ["leaving", "staying"] as const)
      expect(this[group].filter(isAlive), group).toEqual(groups.includes(group) ? this[group] : []);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.home[Symbol.asyncDispose]();
  }
}

for (const tier of [tiers.cgroup, tiers.none, tiers.cgroupNoPidfd])
  describe.skipIf(tier.whyNot !== null).concurrent(`a process adopted out of its run, ${tier.name}`, () => {
    test("survives the stop of its run and ends by its own stop", async () => {
      await using fixture = await AdoptionFixture.open(tier);
      const { home, owner, runId, member } = fixture;
      const { record, warnings } = await fixture.adopt();
      const { pid, startTime } = member;
      expect(record).toMatchObject({
        kind: "service",
        state: "running",
        root: { pid, startTime },
        originInstanceId: FIRST,
        anchor: { pid: home.column(runId, "anchor_pid") },
      });
      expect(record.tier).toMatch(tier.recorded);
      expect(warnings.join()).toMatch(/stdout is a pipe .*stderr is a pipe/);
      expect(home.eventTypes(runId)).toContain("adopt");
      await stopped(owner, runId);
      fixture.expectAlive("leaving");
      await stopped(owner, record.runId);
      fixture.expectAlive();
    });

    // The tiers differ in how processes are found and moved, which the first test shows.
    if (!soak && tier !== tiers.none) return;
    test("is not in the record of its run, which ends with its own code", async () => {
      await using fixture = await AdoptionFixture.open(tier);
      const { owner, runId } = fixture;
      const { record } = await fixture.adopt();
      await stopped(owner, record.runId);
      fixture.expectAlive("staying");
      await owner.write(runId, "\n");
      expect((await owner.receive("ended")).record).toMatchObject({
        runId,
        exit: { reason: "exit", code: 9 },
        emptiness: "proven",
        residue: [{ command: "sleep", kind: "background" }],
      });
    });

    test("ends by itself with its residue, and the run continues", async () => {
      await using fixture = await AdoptionFixture.open(tier);
      const { owner, runId, member } = fixture;
      const { record } = await fixture.adopt();
      signalProcess(member, "SIGKILL");
      // The leader of the run reaps it, so its status is not known.
      expect((await owner.receive("ended")).record).toMatchObject({
        runId: record.runId,
        exit: { reason: "exit", code: null, source: "none" },
        emptiness: "proven",
      });
      fixture.expectAlive("staying");
      await stopped(owner, runId);
    });
  });

for (const tier of [tiers.cgroup, tiers.none])
  describe.skipIf(tier.whyNot !== null).concurrent(`an adoption, ${tier.name}`, () => {
    test("includes processes that are created meanwhile", async () => {
      await using home = await SharedHome.open(tier);
      const owner = await home.supervisorProcess(FIRST);
      const { runId, root } = await owner.spawn(home.script(`sh '${growingFamily}' $0 & wait`), OPTIONS);
      const member = await waitFor("some processes run", () => {
        const running = home.tokenProcesses.ofRuns();
        return running.length > 20 && running.find(({ parentPid }) => parentPid === root?.pid);
      });
      const { record } = await owner.adoptProcess(member.pid);
      await stopped(owner, runId);
      await waitFor("all processes run", () => home.tokenProcesses.ofRuns().length === GROWN_SIZE);
      await stopped(owner, record.runId);
    });

    test("includes a process that becomes an orphan afterwards", async () => {
      await using home = await SharedHome.open(tier);
      const owner = await home.supervisorProcess(FIRST);
      const script = `sh -c 'sh -c "sleep 100001.$0 & wait" $0 & wait; sleep 100002.$0' $0 & wait`;
      const { runId, root } = await owner.spawn(home.script(script), OPTIONS);
      const orphan = await waitFor("it runs", () => sleeper(home, 100_001));
      const parent = readProcess(orphan.parentPid);
      const member = readProcess(parent?.parentPid ?? 0);
      if (parent === null || member === null) throw new Error("its parents are gone");
      expect(member.parentPid).toBe(root?.pid);
      const { record } = await owner.adoptProcess(member.pid);
      signalProcess(parent, "SIGKILL");
      await waitFor("its parent is gone", () => !isAlive(parent));
      await stopped(owner, runId);
      expect(isAlive(orphan)).toBe(true);
      await stopped(owner, record.runId);
      expect(isAlive(orphan)).toBe(false);
    });

    test("when the anchor of both is killed, both are lost and no process is left", async () => {
      await using fixture = await AdoptionFixture.open(tier);
      const { home, owner, runId } = fixture;
      const { record } = await fixture.adopt();
      for (const anchor of home.anchors(FIRST)) signalProcess(anchor, "SIGKILL");
      const ends = [await owner.receive("ended"), await owner.receive("ended")];
      expect(ends.map((end) => end.record.exit?.reason)).toEqual(["lost", "lost"]);
      expect(new Set(ends.map((end) => end.record.runId))).toEqual(new Set([runId, record.runId]));
      await home.tokenProcesses.waitUntilGone(5_000);
      const cgroups = runsCgroup(home);
      expect(ends.filter((end) => existsSync(join(cgroups ?? home.home, end.record.runId)))).toEqual([]);
      expect(cgroups === null).toBe(tier === tiers.none);
    });

    // The records do not depend on the tier.
    const steps = tier === tiers.none ? (["inserted", "attached", "committed"] as const) : [];
    for (const step of steps)
      test(`whose supervisor is killed, ${step}: the next one knows the run of each process`, async () => {
        await using fixture = await AdoptionFixture.open(tier);
        const { home, owner, runId, member } = fixture;
        await owner.pauseAt(step);
        owner.order("adoptProcess", { pid: member.pid });
        expect(await owner.waitUntilPaused()).toBe(step);
        const service = home.runsOf(FIRST).find((id) => id !== runId) ?? "";
        await owner.kill();
        const next = await home.supervisorProcess(FIRST);
        const { runIds } = await next.reconcile();
        const isMoved = step !== "inserted";
        expect(new Set(runIds)).toEqual(new Set(isMoved ? [runId, service] : [runId]));
        if (isMoved)
          await waitFor("its identity is recorded", () => home.column(service, "root_pid") === member.pid);
        else expect(home.column(service, "exit_reason")).toBe("spawn-error");
        await stopped(next, runId);
        fixture.expectAlive(...(isMoved ? ["leaving" as const] : []));
        if (isMoved) await stopped(next, service);
      });
  });

test("an adopted server keeps answering without its gateway and its run", async () => {
  await using home = await SharedHome.open(tiers.none);
  const owner = await home.supervisorProcess(FIRST);
  const port = await freePort();
  const script = `'${process.execPath}' '${serverScript}' ${port} 0 $0 >/dev/null 2>&1 & wait`;
  const { runId } = await owner.spawn(home.script(script), { ...OPTIONS, ownerLossMs: 300 });
  const pid = await waitFor("it answers", () => answeringPid(port));
  const { record, warnings } = await owner.adoptProcess(pid);
  expect(warnings).toEqual([]);
  await owner.kill();
  await waitFor("its anchor has ended the run", () => home.tokenProcesses.ofRuns().length === 1);
  expect(await answeringPid(port)).toBe(pid);
  const next = await home.supervisorProcess(FIRST);
  await next.reconcile();
  expect(home.column(runId, "exit_reason")).toBe("owner-lost");
  await stopped(next, record.runId);
  expect(await answeringPid(port)).toBeNull();
});

test("a leader, an anchor, an unrelated process and a process with a copied marker are refused", async () => {
  await using home = await SharedHome.open();
  const supervisor = await home.supervisor(FIRST);
  const run = await supervisor.spawn(home.script("sleep 100001.$0 & wait"), { graceMs: 0 });
  await waitFor("it runs", () => sleeper(home, 100_001));
  const record = await supervisor.getRun(run.runId);
  const env = { ...process.env, HOLDFAST_RUN_ID: run.runId };
  const unrelated = spawn("sleep", ["7200"], { stdio: "ignore", env });
  try {
    for (const [pid = 0, code, message] of [
      [record?.root?.pid, "BAD_INPUT", /adopt the run instead/],
      [record?.anchor?.pid, "BAD_INPUT", /the anchor/],
      [process.pid, "NOT_OURS", /neither its ancestry/],
      [unrelated.pid, "NOT_OURS", /only has the environment marker/],
      [2 ** 22 + 1, "NOT_OURS", /no such process/],
    ] as const)
      await expect(supervisor.adoptProcess(pid)).rejects.toMatchObject({
        code,
        message: expect.stringMatching(message) as string,
      });
    expect(home.runsOf(FIRST)).toEqual([run.runId]);
    expect(unrelated.exitCode).toBeNull();
  } finally {
    unrelated.kill("SIGKILL");
    await supervisor.stop(run.runId);
  }
});

test("an adoption is refused without cgroups and process handles", async () => {
  await using fixture = await AdoptionFixture.open(tiers.noPidfd);
  const { home, owner, runId, member } = fixture;
  owner.order("adoptProcess", { pid: member.pid });
  expect(await owner.receive("failed")).toMatchObject({ code: "NOT_ADOPTED" });
  expect(home.runsOf(FIRST)).toEqual([runId]);
  owner.cancel(runId);
  await home.ended(runId);
});

/** The directory of the runs' cgroups; null: there is none. */
function runsCgroup(home: SharedHome): string | null {
  const text = readFileSync(join(home.home, "instances", FIRST, "launcher.json"), "utf8");
  return (JSON.parse(text) as { readonly cgroupDirectory: string | null }).cgroupDirectory;
}
