import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test, vi } from "vitest";
import { SharedHome } from "../../support/supervisor/shared-home.js";
import type { SupervisorProcess } from "../../support/supervisor/supervisor-process.js";
import { isAlive, readProcess, signalProcess, type LiveProcess } from "../../support/live-processes.js";
import { tiers } from "../../support/sandbox.js";
import { answeringPid, freePort, serverScript } from "./dev-server.js";
import { waitFor } from "../../support/wait-for.js";

/** Each starts a supervisor in a process of its own, and many do at once. */
vi.setConfig({ testTimeout: 60_000 });

const FIRST = "in_first000";
const OPTIONS = { graceMs: 200, onEscape: "sweep", stdin: "pipe" } as const;

/** A leader with a child of its own, and another that has two: the nest. It ends with 9 when it is told to. */
const NEST = `sh -c 'sleep 100001.$0 & sleep 100002.$0; true' $0 & sleep 100003.$0 & read line; exit 9`;

const brood = fileURLToPath(new URL("children/process-family.sh", import.meta.url));
/** The first, four below it, and forty below each. */
const BROOD = 1 + 4 + 160;

interface Nest {
  readonly runId: string;
  /** The first process of what is to leave. */
  readonly egg: LiveProcess;
  /** It, and all below it. */
  readonly leaving: readonly LiveProcess[];
  readonly staying: readonly LiveProcess[];
}

function sleeper(sharedHome: SharedHome, number: number): LiveProcess | undefined {
  return sharedHome.tokenProcesses
    .ofRuns()
    .find(({ argv }) => argv[1] === `${number}.${sharedHome.tokenProcesses.token}`);
}

async function nest(sharedHome: SharedHome, supervisorProcess: SupervisorProcess): Promise<Nest> {
  const { runId, root } = await supervisorProcess.spawn(sharedHome.script(NEST), OPTIONS);
  const below = await waitFor("the nest is complete", () => {
    const one = sleeper(sharedHome, 100_001);
    return one !== undefined && sleeper(sharedHome, 100_002) && sleeper(sharedHome, 100_003) && one;
  });
  const egg = readProcess(below.parentPid);
  if (egg === null || egg.parentPid !== root?.pid) throw new Error("the nest is built otherwise");
  const others = sharedHome.tokenProcesses.ofRuns();
  const leaving = others.filter(({ pid, parentPid }) => pid === egg.pid || parentPid === egg.pid);
  return { runId, egg, leaving, staying: others.filter((one) => !leaving.includes(one)) };
}

async function stopped(supervisorProcess: SupervisorProcess, runId: string) {
  supervisorProcess.cancel(runId);
  const { record } = await supervisorProcess.receive("ended");
  expect(record.runId).toBe(runId);
  return record;
}

for (const tier of [tiers.cgroup, tiers.none, tiers.cgroupNoPidfd])
  describe
    .skipIf(tier.whyNot !== null)
    .concurrent(`a process that is adopted out of its run, ${tier.name}`, () => {
      test("survives the stop of its run and ends by its own stop", async () => {
        await using sharedHome = await SharedHome.open(tier);
        const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
        const { runId, egg, leaving, staying } = await nest(sharedHome, supervisorProcess);
        const { record, warnings } = await supervisorProcess.adoptProcess(egg.pid);
        expect(record).toMatchObject({
          kind: "service",
          state: "running",
          root: { pid: egg.pid, startTime: egg.startTime },
          originInstanceId: FIRST,
        });
        expect(record.tier).toMatch(tier.recorded);
        expect(record.anchor).toEqual((await recordOf(sharedHome, runId)).anchor);
        expect(warnings.join()).toMatch(/stdout is a pipe .*stderr is a pipe/);
        expect(sharedHome.eventTypes(runId)).toContain("adopt");
        expect(await stopped(supervisorProcess, runId)).toMatchObject({
          exit: { reason: "manual-cancel" },
          emptiness: "proven",
        });
        expect(staying.filter(isAlive)).toEqual([]);
        expect(leaving.filter(isAlive)).toEqual(leaving);
        expect(await stopped(supervisorProcess, record.runId)).toMatchObject({
          exit: { reason: "manual-cancel" },
          emptiness: "proven",
        });
        expect(leaving.filter(isAlive)).toEqual([]);
      });

      test("leaves a run that ends without it, with its own code, and nothing of the service in its record", async () => {
        await using sharedHome = await SharedHome.open(tier);
        const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
        const { runId, egg, leaving, staying } = await nest(sharedHome, supervisorProcess);
        const { record } = await supervisorProcess.adoptProcess(egg.pid);
        expect(await stopped(supervisorProcess, record.runId)).toMatchObject({ emptiness: "proven" });
        expect(leaving.filter(isAlive)).toEqual([]);
        expect(staying.filter(isAlive)).toEqual(staying);
        await supervisorProcess.write(runId, "\n");
        expect((await supervisorProcess.receive("ended")).record).toMatchObject({
          runId,
          exit: { reason: "exit", code: 9 },
          emptiness: "proven",
          residue: [{ command: "sleep", kind: "background" }],
        });
      });

      test("ends by itself with its residue, and the run continues", async () => {
        await using sharedHome = await SharedHome.open(tier);
        const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
        const { runId, egg, leaving, staying } = await nest(sharedHome, supervisorProcess);
        const { record } = await supervisorProcess.adoptProcess(egg.pid);
        signalProcess(egg, "SIGKILL");
        const { record: ended } = await supervisorProcess.receive("ended");
        expect(ended).toMatchObject({ runId: record.runId, emptiness: "proven" });
        // The run's own process has waited for it, and did not say how it ended.
        expect(ended.exit).toMatchObject({ reason: "exit", code: null, source: "none" });
        expect(leaving.filter(isAlive)).toEqual([]);
        expect(staying.filter(isAlive)).toEqual(staying);
        await stopped(supervisorProcess, runId);
      });
    });

for (const tier of [tiers.cgroup, tiers.none])
  describe.skipIf(tier.whyNot !== null).concurrent(`the move, ${tier.name}`, () => {
    test("includes processes that are created during the adoption", async () => {
      await using sharedHome = await SharedHome.open(tier);
      const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
      const { runId, root } = await supervisorProcess.spawn(
        sharedHome.script(`sh '${brood}' $0 & wait`),
        OPTIONS,
      );
      const egg = await waitFor("some are born", () => {
        const born = sharedHome.tokenProcesses.ofRuns();
        return born.length > 20 && born.find(({ parentPid }) => parentPid === root?.pid);
      });
      const { record } = await supervisorProcess.adoptProcess(egg.pid);
      expect(await stopped(supervisorProcess, runId)).toMatchObject({ emptiness: "proven" });
      const all = await waitFor("all are born, and nobody was taken for the run's", () => {
        const others = sharedHome.tokenProcesses.ofRuns();
        return others.length === BROOD && others;
      });
      expect(all.filter(isAlive)).toHaveLength(BROOD);
      expect(await stopped(supervisorProcess, record.runId)).toMatchObject({ emptiness: "proven" });
    });

    test("an orphan of the service stays the service's", async () => {
      await using sharedHome = await SharedHome.open(tier);
      const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
      const script = `sh -c 'sh -c "sleep 100001.$0 & wait" $0 & wait; sleep 100002.$0' $0 & wait`;
      const { runId, root } = await supervisorProcess.spawn(sharedHome.script(script), OPTIONS);
      const orphan = await waitFor("it is there", () => sleeper(sharedHome, 100_001));
      const parent = readProcess(orphan.parentPid);
      const egg = readProcess(parent?.parentPid ?? 0);
      if (parent === null || egg === null) throw new Error("its parents are gone");
      expect(egg.parentPid).toBe(root?.pid);
      const { record } = await supervisorProcess.adoptProcess(egg.pid);
      signalProcess(parent, "SIGKILL");
      await waitFor("its parent is gone", () => !isAlive(parent));
      await stopped(supervisorProcess, runId);
      expect(isAlive(orphan)).toBe(true);
      await stopped(supervisorProcess, record.runId);
      expect(isAlive(orphan)).toBe(false);
    });

    test("when the anchor of both is killed, both are lost and no process is left", async () => {
      await using sharedHome = await SharedHome.open(tier);
      const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
      const { egg, runId } = await nest(sharedHome, supervisorProcess);
      const { record } = await supervisorProcess.adoptProcess(egg.pid);
      for (const anchor of sharedHome.anchors(FIRST)) signalProcess(anchor, "SIGKILL");
      const ends = [await supervisorProcess.receive("ended"), await supervisorProcess.receive("ended")];
      expect(ends.map((end) => end.record.exit?.reason)).toEqual(["lost", "lost"]);
      expect(new Set(ends.map((end) => end.record.runId))).toEqual(new Set([runId, record.runId]));
      await sharedHome.tokenProcesses.waitUntilGone(5_000);
      const cgroups = runsCgroup(sharedHome);
      expect(ends.filter((end) => existsSync(join(cgroups ?? sharedHome.home, end.record.runId)))).toEqual(
        [],
      );
      expect(cgroups === null).toBe(tier === tiers.none);
    });

    // What is on record does not depend on the tier.
    const steps = tier === tiers.none ? (["inserted", "attached", "committed"] as const) : [];
    for (const step of steps)
      test(`its supervisor killed, ${step}: the next one knows whose everybody is`, async () => {
        await using sharedHome = await SharedHome.open(tier);
        const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
        const { runId, egg, leaving } = await nest(sharedHome, supervisorProcess);
        await supervisorProcess.pauseAt(step);
        supervisorProcess.order("adoptProcess", { pid: egg.pid });
        expect(await supervisorProcess.waitUntilPaused()).toBe(step);
        const service = sharedHome.runsOf(FIRST).find((id) => id !== runId) ?? "";
        await supervisorProcess.kill();
        const next = await sharedHome.supervisorProcess(FIRST);
        const { runIds } = await next.reconcile();
        const moved = step !== "inserted";
        expect(new Set(runIds)).toEqual(new Set(moved ? [runId, service] : [runId]));
        if (!moved) {
          expect(sharedHome.column(service, "exit_reason")).toBe("spawn-error");
          expect(await stopped(next, runId)).toMatchObject({ emptiness: "proven" });
          return;
        }
        await waitFor("its identity is on record", () => sharedHome.column(service, "root_pid") === egg.pid);
        await stopped(next, runId);
        expect(leaving.filter(isAlive)).toEqual(leaving);
        expect(await stopped(next, service)).toMatchObject({ emptiness: "proven" });
      });
  });

test("a server keeps answering without the gateway and its run", async () => {
  await using sharedHome = await SharedHome.open(tiers.none);
  const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
  const port = await freePort();
  const script = `'${process.execPath}' '${serverScript}' ${port} 0 $0 >/dev/null 2>&1 & wait`;
  const { runId } = await supervisorProcess.spawn(sharedHome.script(script), {
    ...OPTIONS,
    ownerLossMs: 300,
  });
  let pid: number | null = null;
  while (pid === null) pid = await answeringPid(port);
  const { record, warnings } = await supervisorProcess.adoptProcess(pid);
  expect(warnings).toEqual([]);
  await supervisorProcess.kill();
  await waitFor("the run was ended by its anchor", () => sharedHome.tokenProcesses.ofRuns().length === 1);
  expect(await answeringPid(port)).toBe(pid);
  const next = await sharedHome.supervisorProcess(FIRST);
  await next.reconcile();
  expect(sharedHome.column(runId, "exit_reason")).toBe("owner-lost");
  await stopped(next, record.runId);
  expect(await answeringPid(port)).toBeNull();
});

test("a leader, an anchor, an unrelated process and a process with a copied marker are refused", async () => {
  await using sharedHome = await SharedHome.open();
  const supervisor = await sharedHome.supervisor(FIRST);
  const run = await supervisor.spawn(sharedHome.script("sleep 100001.$0 & wait"), { graceMs: 0 });
  await waitFor("it is there", () => sleeper(sharedHome, 100_001));
  const record = await supervisor.getRun(run.runId);
  const claims = { ...process.env, HOLDFAST_RUN_ID: run.runId };
  const stranger = spawn("sleep", ["7200"], { stdio: "ignore", env: claims });
  try {
    const refusals = [
      [record?.root?.pid, "BAD_INPUT", /adopt the run instead/],
      [record?.anchor?.pid, "BAD_INPUT", /the anchor/],
      [process.pid, "NOT_OURS", /neither its ancestry/],
      [stranger.pid, "NOT_OURS", /only has the environment marker/],
      [2 ** 22 + 1, "NOT_OURS", /no such process/],
    ] as const;
    for (const [pid = 0, code, message] of refusals)
      await expect(supervisor.adoptProcess(pid)).rejects.toMatchObject({
        code,
        message: expect.stringMatching(message) as string,
      });
    expect(sharedHome.runsOf(FIRST)).toEqual([run.runId]);
    expect(stranger.exitCode).toBeNull();
  } finally {
    stranger.kill("SIGKILL");
    await supervisor.stop(run.runId);
  }
});

test("is refused without cgroups and process handles", async () => {
  await using sharedHome = await SharedHome.open(tiers.noPidfd);
  const supervisorProcess = await sharedHome.supervisorProcess(FIRST);
  const { runId, egg } = await nest(sharedHome, supervisorProcess);
  supervisorProcess.order("adoptProcess", { pid: egg.pid });
  expect(await supervisorProcess.receive("failed")).toMatchObject({ code: "NOT_ADOPTED" });
  expect(sharedHome.runsOf(FIRST)).toEqual([runId]);
  supervisorProcess.cancel(runId);
  await sharedHome.ended(runId);
});

/** Where the cgroups of all runs are; null: there are none. */
function runsCgroup(sharedHome: SharedHome): string | null {
  const text = readFileSync(join(sharedHome.home, "instances", FIRST, "launcher.json"), "utf8");
  return (JSON.parse(text) as { readonly cgroupDirectory: string | null }).cgroupDirectory;
}

async function recordOf(sharedHome: SharedHome, runId: string) {
  const supervisor = await sharedHome.supervisor("in_reader00");
  const record = await supervisor.getRun(runId);
  if (record === null) throw new Error(`no record of ${runId}`);
  return record;
}
