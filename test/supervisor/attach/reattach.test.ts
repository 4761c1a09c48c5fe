import { expect, test } from "vitest";
import { systemClock } from "../../../src/async/clock.js";
import { defaults } from "../../../src/defaults.js";
import { LeaseLost } from "../../../src/errors.js";
import { NO_RUN_FILES } from "../../support/supervisor/fake-host.js";
import { fakeSupervisor, spawnFakeRun } from "../../support/supervisor/fake-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

test("a lost connection to a live anchor is replaced under a new epoch that is committed first", async () => {
  const world = fakeSupervisor();
  const { host, store } = world;
  const run = await spawnFakeRun(world);
  const written = run.write("abc");
  const epochs: number[] = [];
  const attach = host.attach.bind(host);
  host.attach = (address, epoch) => {
    epochs.push(store.runs.get(address.runId)?.leaseEpoch ?? 0);
    return attach(address, epoch);
  };
  host.last.disconnect();
  await waitFor(() => host.attached.length === 2);
  expect(host.attached).toEqual([0, 2]);
  expect(epochs).toEqual([1, 2]);
  await waitFor(() => store.eventTypes(run.runId).includes("attach"));
  expect(host.last.links[0]?.sent).toEqual(["write 0 abc"]);
  host.last.emit({ type: "stdin", accepted: 3, limit: 100, closed: false });
  await written;
  host.last.exit({ leader: { code: 5, signal: null } });
  expect((await run.wait()).exit).toMatchObject({ reason: "exit", code: 5, source: "anchor" });
});

test("a connection lost at the end finds the end in the exit file", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  const anchor = world.host.last;
  world.host.left.set(run.runId, {
    ...NO_RUN_FILES,
    exit: anchor.exitFacts({ leader: { code: null, signal: 9 }, reason: "signal" }),
  });
  anchor.answers = false;
  anchor.disconnect();
  expect((await run.wait()).exit).toMatchObject({ reason: "signal", signal: "SIGKILL", source: "exit-file" });
});

test("a run whose anchor died is lost, with the leader's status, after the launcher has cleaned up", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  const anchor = world.host.last;
  anchor.answers = false;
  anchor.disconnect();
  setTimeout(() => {
    world.host.left.set(run.runId, {
      ...NO_RUN_FILES,
      leader: { code: 4, signal: null },
      swept: { anchorSignal: 9, killed: 3, killMode: "pid", emptiness: "proven" },
    });
  }, 50);
  const record = await run.wait();
  expect(record).toMatchObject({
    exit: { reason: "lost", code: 4, source: "leader-file" },
    emptiness: "proven",
  });
  expect(world.store.eventTypes(run.runId)).toEqual(["spawn", "cleanup", "exit"]);
  expect(world.host.reaped).toEqual([]);
});

test("without a launcher, a verified root is killed and an unverified one is not signalled", async () => {
  const verified = fakeSupervisor();
  const unverified = fakeSupervisor();
  const runs = await Promise.all([spawnFakeRun(verified), spawnFakeRun(unverified)]);
  verified.host.alive.add(runs[0].rootPid ?? 0);
  for (const { host } of [verified, unverified]) {
    host.last.answers = false;
    host.last.disconnect();
  }
  const began = performance.now();
  const [reaped, left] = await Promise.all(runs.map((run) => run.wait()));
  expect(performance.now() - began).toBeGreaterThanOrEqual(defaults.sweptWaitMs - 1);
  expect(reaped).toMatchObject({ exit: { reason: "lost" }, emptiness: "proven" });
  expect(verified.host.reaped).toMatchObject([{ root: { pid: runs[0].rootPid } }]);
  expect(left).toMatchObject({ exit: { reason: "lost" }, emptiness: "unproven" });
  expect(left?.exit?.detail).toContain("nothing was signalled");
  expect(unverified.host.reaped).toEqual([]);
});

test("a live anchor that does not answer is tried again, and nothing is concluded", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  const anchor = world.host.last;
  world.host.alive.add(anchor.welcome.anchor.pid);
  anchor.answers = false;
  anchor.disconnect();
  await new Promise((resolve) => setTimeout(resolve, 150));
  expect(run.state).toBe("running");
  anchor.answers = true;
  await waitFor(() => anchor.links.length > 0);
  anchor.exit();
  expect((await run.wait()).exit?.reason).toBe("exit");
});

test("a connection that ends while its silent anchor is handled is replaced, also if that fails", async () => {
  // Silence is noticed after seconds.
  const speed = 20;
  const world = fakeSupervisor({
    clock: {
      ...systemClock,
      now: () => performance.now() * speed,
      setTimer: (ms, call, options) => systemClock.setTimer(ms / speed, call, options),
      sleep: (ms, early) => systemClock.sleep(ms / speed, early),
    },
  });
  const { host, store, problems } = world;
  const run = await spawnFakeRun(world);
  const { runId } = run;
  const anchor = host.last;
  host.reap = async () => {
    anchor.disconnect();
    host.left.set(runId, {
      ...NO_RUN_FILES,
      swept: { anchorSignal: 9, killed: 1, killMode: "pid", emptiness: "proven" },
    });
    throw new Error("no process can be inspected now");
  };
  await run.cancel({ actor: "someone" });
  anchor.answers = false;
  await waitFor("it has ended", () => store.runs.get(runId)?.state === "exited");
  expect(store.runs.get(runId)).toMatchObject({ exit: { reason: "lost" }, emptiness: "proven" });
  expect(problems.map(({ message }) => message)).toContain(`run ${runId}: no process can be inspected now`);
});

test("while the lease cannot be written, the run can be stopped through an observer", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  world.store.failing = new Error("database is locked");
  world.host.last.disconnect();
  await run.cancel({ actor: "urgent" });
  expect(world.host.attached).toEqual([0]);
  expect(world.host.last.stops).toMatchObject([{ actor: "urgent" }]);
  world.store.failing = null;
  await waitFor(() => world.host.attached.includes(2));
  world.host.last.exit();
  expect((await run.wait()).exit).toMatchObject({ reason: "manual-cancel", actor: "urgent" });
});

test("a supervisor detaches from a run that another one owns", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  const record = world.store.runs.get(run.runId);
  if (record !== undefined)
    world.store.runs.set(run.runId, { ...record, ownerInstanceId: "in_other", leaseEpoch: 9 });
  const ended = run.wait();
  world.host.last.disconnect();
  await expect(ended).rejects.toThrow(LeaseLost);
  await expect(run.write("x")).rejects.toThrow(LeaseLost);
  expect(() => run.resize({ rows: 1, cols: 1 })).toThrow(LeaseLost);
  expect(world.host.last.stops).toEqual([]);
  expect(world.supervisor.run(run.runId)).toBeNull();
});

test("a refused epoch is a lost lease: the run is neither controlled nor written", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  const ended = run.wait();
  world.host.last.emit({ type: "refused", code: "stale-epoch", message: "", epoch: 7 });
  await expect(ended).rejects.toThrow(LeaseLost);
  expect(world.host.last.links).toEqual([]);
});

test("a terminal size set between two connections is sent on the next", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  world.host.last.disconnect();
  run.resize({ rows: 50, cols: 100 });
  await waitFor(() => world.host.attached.length === 2);
  await waitFor(() => world.host.last.links[0]?.sent.length === 1);
  expect(world.host.last.links[0]?.sent).toEqual(["resize 50 100"]);
});

test("a stop that was lost with its connection is sent again before later ones", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world);
  const anchor = world.host.last;
  const stop = anchor.stop.bind(anchor);
  anchor.stop = () => undefined;
  await run.cancel({ actor: "first" });
  anchor.stop = stop;
  anchor.disconnect();
  await waitFor(() => anchor.stops.length > 0);
  expect(anchor.stops).toMatchObject([{ actor: "first" }]);
  anchor.disconnect();
  await waitFor(() => world.host.attached.length === 4);
  expect(anchor.stops).toHaveLength(1);
});
