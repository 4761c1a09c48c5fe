import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { acquireInstanceLock } from "../../../src/home/instance-lock.js";
import { readMachineIdentity } from "../../../src/home/machine-identity.js";
import { newRunId } from "../../../src/model/ids.js";
import { NO_DEADLINES, NO_LIMITS, type RunRecord } from "../../../src/model/run.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { defaultPolicy } from "../../../src/supervisor/check-options.js";
import { repetitions } from "../../support/scale.js";
import { SharedHome } from "../../support/supervisor/shared-home.js";
import type { SupervisorProcess } from "../../support/supervisor/supervisor-process.js";
import { waitFor } from "../../support/wait-for.js";

const DEAD = "in_dead";
const LEASES = repetitions(200, 10_000);
/** How many of them have live processes. */
const LIVING = 8;
const graceMs = 200;
/** A lease that expired this long ago may be stolen from a live owner. */
const STALLED_MS = defaults.stalledOwnerMs + 1_000;

/** Records of the dead instance without processes. */
async function recordDead(sharedHome: SharedHome, count: number): Promise<void> {
  const store = await openSqliteStore({ path: join(sharedHome.home, "store.sqlite") });
  const machine = await readMachineIdentity(sharedHome.home);
  const gone = (pid: number): NonNullable<RunRecord["root"]> => ({ pid, startTime: 1, uniqueId: "1" });
  for (let at = 0; at < count; at++) {
    const lease = await store.insertRun(
      {
        ...machine,
        stateId: null,
        runId: newRunId(),
        leaseId: `lease_${at}`,
        sessionKey: null,
        sessionId: null,
        backendId: null,
        agentId: null,
        labels: {},
        kind: "task",
        io: "pipe",
        command: "gone",
        commandHash: "",
        cwd: "/",
        anchorPath: "",
        originInstanceId: DEAD,
        ownerInstanceId: DEAD,
        leaseEpoch: 1,
        deadlines: NO_DEADLINES,
        policy: { ...defaultPolicy({ onEscape: "fail", onOrphan: "adopt" }), graceMs },
        limits: NO_LIMITS,
        createdAt: Date.now(),
        service: null,
        imported: null,
      },
      0,
    );
    const pid = 1_000_000 + 2 * at;
    const boundary = { cgroup: null, cgroupInode: null, note: null };
    await store.saveRun(lease, {
      to: "gated",
      anchor: gone(pid),
      root: gone(pid + 1),
      processGroupId: pid + 1,
      boundary,
      tier: "test",
    });
  }
  await store[Symbol.asyncDispose]();
}

test.concurrent(`two supervisors, ${LEASES} expired leases: each is stolen exactly once`, async () => {
  await using sharedHome = await SharedHome.open();
  const dead = await sharedHome.supervisorProcess(DEAD);
  const living: string[] = [];
  for (let at = 0; at < LIVING; at++)
    living.push((await dead.spawn({ io: "pipe", argv: ["cat", "/dev/stdin"] }, { graceMs })).runId);
  await dead.kill();
  await recordDead(sharedHome, LEASES - LIVING);
  sharedHome.expireLeases();
  const thieves = await Promise.all([
    sharedHome.supervisorProcess("in_one"),
    sharedHome.supervisorProcess("in_two"),
  ]);
  const found = await Promise.all(thieves.map((thief) => thief.reconcile()));

  const held = found.map(({ runIds }) => runIds);
  expect(held.flat().toSorted()).toEqual(living.toSorted());
  await waitFor("every run without processes has an end", () => sharedHome.openRuns() === LIVING);
  const steals = sharedHome.sql(
    `select count(*) as times, min(data ->> 'by') as thief, min(data ->> 'epoch') as epoch, owner_instance_id as owner
     from run_events join runs using (run_id) where type = 'reconcile' group by run_id`,
  );
  expect(steals).toHaveLength(LEASES);
  const wins = new Map<unknown, number>();
  for (const { times, thief, epoch, owner } of steals) {
    expect({ times, epoch, owner }).toEqual({ times: 1, epoch: 2, owner: thief });
    wins.set(thief, (wins.get(thief) ?? 0) + 1);
  }
  const ends = sharedHome.sql(
    "select run_id, count(*) as times from run_events where type = 'exit' group by run_id having times <> 1",
  );
  expect(ends).toEqual([]);
  expect(sharedHome.sql("select * from run_events where type = 'exit'")).toHaveLength(LEASES - LIVING);
  for (const [at, thief] of thieves.entries()) {
    for (const runId of held[at] ?? []) {
      thief.cancel(runId);
      expect((await thief.receive("ended")).record.ownerInstanceId).toBe(thief.instanceId);
    }
    expect(thief.received("problem")).toEqual([]);
    await thief.close();
  }
  console.log(`${LEASES} leases stolen:`, Object.fromEntries(wins));
});

/** All operations that only an owner may do. */
async function tryToSteer(supervisorProcess: SupervisorProcess, runId: string): Promise<void> {
  for (const [order, given] of [
    ["write", { data: "from the first\n" }],
    ["resize", { size: { rows: 7, cols: 7 } }],
  ] as const) {
    supervisorProcess.order(order, { runId, ...given });
    expect(await supervisorProcess.receive("failed")).toMatchObject({ order, code: "LEASE_LOST" });
  }
}

describe.concurrent("a supervisor stopped past its lease", () => {
  test("whose lease was stolen controls nothing and names the new owner, and the run continues", async () => {
    await using sharedHome = await SharedHome.open();
    const supervisorProcess = await sharedHome.supervisorProcess("in_first");
    const { token } = sharedHome.tokenProcesses;
    const script = `echo up; while read a; do echo "got $a of $(stty size)"; done; exit 4; : ${token}`;
    const { runId } = await supervisorProcess.spawn(
      { io: "pty", argv: ["sh", "-c", script, token] },
      { graceMs },
    );
    await supervisorProcess.waitForOutput("up");
    await supervisorProcess.suspend();
    // Expired, but not for long enough: the owner may be suspended.
    sharedHome.expireLeases(STALLED_MS / 2);
    const thief = await sharedHome.supervisorProcess("in_thief");
    expect((await thief.reconcile()).decisions).toMatchObject([{ row: "stalled", action: "leave" }]);
    sharedHome.expireLeases(STALLED_MS);
    expect((await thief.reconcile()).decisions).toMatchObject([
      { runId, row: "anchor-alive", action: "adopt" },
    ]);
    await thief.write(runId, "one\n");
    await thief.waitForOutput("got one of 24 80");

    supervisorProcess.resume();
    const problem = await supervisorProcess.receive("problem");
    expect(problem).toMatchObject({ runId, code: "LEASE_LOST", heldBy: "in_thief" });
    expect(problem.message).toContain("in_thief has acquired it");
    expect(await supervisorProcess.receive("rejected")).toMatchObject({ runId, code: "LEASE_LOST" });
    await tryToSteer(supervisorProcess, runId);
    expect((await supervisorProcess.reconcile()).decisions).toEqual([]);

    await thief.write(runId, "two\n");
    await thief.waitForOutput("got two of 24 80");
    expect(thief.output).not.toContain("from the first");
    thief.cancel(runId);
    const { record } = await thief.receive("ended");
    expect(record).toMatchObject({ ownerInstanceId: "in_thief", leaseEpoch: 2, emptiness: "proven" });
    expect(sharedHome.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(1);
    await Promise.all([supervisorProcess.close(), thief.close()]);
  });

  test("whose lease was stolen before GO never runs the command", async () => {
    await using sharedHome = await SharedHome.open();
    const supervisorProcess = await sharedHome.supervisorProcess("in_first");
    await supervisorProcess.pauseAt("committed");
    supervisorProcess.order("spawn", { input: sharedHome.scenario, options: { graceMs } });
    await supervisorProcess.waitUntilPaused();
    const runId = sharedHome.onlyRun();
    sharedHome.expireLeases(STALLED_MS);
    const thief = await sharedHome.supervisorProcess("in_thief");
    await thief.reconcile();
    await sharedHome.ended(runId);
    expect(sharedHome.column(runId, "exit_reason")).toBe("spawn-error");

    supervisorProcess.resume();
    const failed = await supervisorProcess.receive("failed");
    expect(failed.order).toBe("spawn");
    expect(sharedHome.tokenProcesses.ofRuns()).toEqual([]);
    expect(sharedHome.column(runId, "started_at")).toBeNull();
    expect(sharedHome.eventTypes(runId)).toEqual(["reconcile", "cancel", "exit"]);
    await Promise.all([supervisorProcess.close(), thief.close()]);
  });

  test("whose run was taken over and has ended reports that and ends nothing twice", async () => {
    await using sharedHome = await SharedHome.open();
    const supervisorProcess = await sharedHome.supervisorProcess("in_first");
    const { runId } = await supervisorProcess.spawn(sharedHome.scenario, { graceMs });
    await sharedHome.tokenProcesses.waitForAllRoles();
    await supervisorProcess.suspend();
    sharedHome.expireLeases(STALLED_MS);
    const thief = await sharedHome.supervisorProcess("in_thief");
    await thief.reconcile({ terminate: true });
    await thief.receive("ended");
    const ended = sharedHome.dumpStore();
    supervisorProcess.resume();
    // The run was ended by another supervisor: both answers are correct.
    const said = await waitFor("it has noticed", () =>
      [...supervisorProcess.received("rejected"), ...supervisorProcess.received("ended")].at(0),
    );
    expect(said.runId).toBe(runId);
    expect(sharedHome.dumpStore()).toEqual(ended);
    await Promise.all([supervisorProcess.close(), thief.close()]);
    expect(sharedHome.dumpStore()).toEqual(ended);
  });
});

test.concurrent("a lease of a live instance is not stolen, however long it has expired on another clock", async () => {
  await using sharedHome = await SharedHome.open();
  // Alive, but it owns none of these runs.
  mkdirSync(join(sharedHome.home, "instances", DEAD), { recursive: true, mode: 0o700 });
  const next = await sharedHome.supervisor("in_next");
  await recordDead(sharedHome, 1);
  const lock = await acquireInstanceLock(join(sharedHome.home, "instances", DEAD));
  sharedHome.expireLeases(STALLED_MS / 2);
  expect((await next.reconcile()).decisions).toMatchObject([{ row: "stalled", action: "leave" }]);
  await lock[Symbol.asyncDispose]();
  expect((await next.reconcile()).decisions).toMatchObject([{ row: "unverifiable", action: "lose" }]);
});
