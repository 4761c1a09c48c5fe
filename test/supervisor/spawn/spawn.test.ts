import { expect, test } from "vitest";
import { BadInput, RunExists, SpawnFailed } from "../../../src/errors.js";
import { fakeSupervisor, spawnFakeRun, nextTurn } from "../../support/supervisor/fake-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

test("the record is committed with the root's identity before GO, and running after", async () => {
  const world = fakeSupervisor();
  const { store, host } = world;
  const seen: string[] = [];
  host.prepare = (anchor) => {
    const go = anchor.go.bind(anchor);
    anchor.go = () => {
      seen.push(...store.log);
      go();
    };
  };
  const run = await spawnFakeRun(world);
  expect(seen).toEqual(["insert gated"]);
  expect(store.log).toEqual(["insert gated", "running"]);
  expect(run.state).toBe("running");
  expect(run.rootPid).toBe(host.last.welcome.root.pid);
  expect(store.runs.get(run.runId)).toMatchObject({
    state: "running",
    root: host.last.welcome.root,
    processGroupId: run.rootPid,
    tier: "subreaper+unique",
    leaseEpoch: 1,
  });
  expect(store.eventTypes(run.runId)).toEqual(["spawn"]);
});

test("the environment contains the markers, and the record contains no environment", async () => {
  const world = fakeSupervisor();
  const run = await spawnFakeRun(world, { env: { API_TOKEN: "hunter2" }, sessionKey: "session" });
  const record = world.store.runs.get(run.runId);
  expect(world.host.specs[0]?.env).toMatchObject({
    HOLDFAST_RUN_ID: run.runId,
    HOLDFAST_LEASE_ID: record?.leaseId,
    HOLDFAST_GATEWAY_INSTANCE_ID: "in_test",
    HOLDFAST_SESSION_KEY: "session",
    API_TOKEN: "hunter2",
  });
  expect(JSON.stringify([record, world.store.events])).not.toContain("hunter2");
});

test("the start and the end of a short run are one write", async () => {
  const world = fakeSupervisor({ waitForEndMs: 60_000 });
  world.host.prepare = (anchor) => {
    const go = anchor.go.bind(anchor);
    anchor.go = () => {
      go();
      anchor.emit({ type: "leader", status: { code: 0, signal: null } });
      anchor.exit();
    };
  };
  const run = await spawnFakeRun(world);
  const record = await run.wait();
  expect(record).toMatchObject({ state: "exited", exit: { reason: "exit", code: 0 }, emptiness: "proven" });
  expect(record.startedAt).not.toBeNull();
  expect(world.store.log).toEqual(["insert gated", "exited"]);
  expect(world.store.eventTypes(run.runId)).toEqual(["spawn", "exit"]);
});

test("the stop and the end of a run that ends at once are one write", async () => {
  const world = fakeSupervisor({ waitForEndMs: 60_000 });
  const run = await spawnFakeRun(world);
  await world.supervisor.getRun(run.runId);
  const stop = { reason: "manual-cancel", actor: "test", requestId: "req_1" } as const;
  world.host.last.emit({ type: "stopping", stop });
  world.host.last.exit({ ...stop, killMode: "cgroup", leader: { code: null, signal: 9 } });
  expect(await run.wait()).toMatchObject({ state: "exited", exit: { reason: "manual-cancel" } });
  expect(world.store.log).toEqual(["insert gated", "running", "exited"]);
  expect(world.store.eventTypes(run.runId)).toEqual(["spawn", "cancel", "exit"]);
});

test("the stop of a run that does not end soon is recorded by itself, and at once for a reader", async () => {
  const world = fakeSupervisor({ waitForEndMs: 60_000 });
  const run = await spawnFakeRun(world);
  await world.supervisor.getRun(run.runId);
  const stop = { reason: "manual-cancel", actor: "test", requestId: "req_1" } as const;
  world.host.last.emit({ type: "stopping", stop });
  expect(world.store.runs.get(run.runId)?.state).toBe("running");
  expect((await world.supervisor.getRun(run.runId))?.state).toBe("exiting");
  expect(world.store.eventTypes(run.runId)).toEqual(["spawn", "cancel"]);
});

test("a run id that is in use is replaced by another", async () => {
  const world = fakeSupervisor();
  let first = true;
  world.store.beforeWrite = () => {
    if (!first) return;
    first = false;
    throw new RunExists("run_taken");
  };
  expect((await spawnFakeRun(world)).state).toBe("running");
});

test("the start of a run that does not end soon is recorded by itself, and at once for a reader", async () => {
  const world = fakeSupervisor({ waitForEndMs: 30 });
  const { store, supervisor } = world;
  const read = await spawnFakeRun(world);
  expect(store.runs.get(read.runId)?.state).toBe("starting");
  expect((await supervisor.getRun(read.runId))?.state).toBe("running");
  const unread = await spawnFakeRun(world);
  expect(store.runs.get(unread.runId)?.state).toBe("starting");
  await waitFor(() => store.runs.get(unread.runId)?.state === "running");
  expect(store.eventTypes(unread.runId)).toEqual(["spawn"]);
});

test("a command that cannot be executed gets a record and an error with the same message", async () => {
  const world = fakeSupervisor();
  world.host.prepare = (anchor) => {
    anchor.go = () => {
      const failure = { errno: 2, step: "exec", message: "cannot run nothing: no such command" };
      anchor.emit({ type: "failed", failure });
      anchor.exit({
        executed: false,
        reason: "spawn-error",
        leader: null,
        spawnError: { errno: 2, step: "exec", message: "" },
      });
    };
  };
  const error = await spawnFakeRun(world).catch((reason: unknown) => reason);
  const { runId } = world.host.last;
  expect(error).toMatchObject({ code: "SPAWN_FAILED", errno: 2, step: "exec", runId });
  expect(world.store.runs.get(runId)).toMatchObject({
    state: "exited",
    emptiness: "proven",
    startedAt: null,
    exit: { reason: "spawn-error", errno: 2, detail: (error as Error).message },
  });
  expect(world.supervisor.run(runId)).toBeNull();
});

test("an anchor that cannot be started gets a record and an error", async () => {
  const world = fakeSupervisor();
  world.host.failStart = new SpawnFailed(
    "run_x",
    28,
    "directory",
    "cannot write the run's directory: the disk is full",
  );
  const error = await spawnFakeRun(world).catch((reason: unknown) => reason);
  expect(error).toBe(world.host.failStart);
  expect([...world.store.runs.values()]).toMatchObject([
    { state: "exited", exit: { reason: "spawn-error", errno: 28 } },
  ]);
});

test("a missing launcher rejects with SpawnFailed, too", async () => {
  const world = fakeSupervisor();
  world.host.failStart = new Error("connection refused");
  await expect(spawnFakeRun(world)).rejects.toMatchObject({
    code: "SPAWN_FAILED",
    step: "anchor",
    cause: world.host.failStart,
  });
});

test("a failed start rejects at once, even if the store fails", async () => {
  const world = fakeSupervisor();
  world.host.failStart = new SpawnFailed("run_x", 28, "directory", "full");
  world.store.beforeWrite = (what) => {
    if (what === "exited") throw new Error("disk full");
  };
  await expect(spawnFakeRun(world)).rejects.toBe(world.host.failStart);
  expect(world.problems).not.toEqual([]);
});

test.each<[string, object, string, RegExp]>([
  ["a NUL in the directory", { cwd: "/tmp\0" }, "cwd", /NUL/],
  ["an empty directory", { cwd: "" }, "cwd", /directory is empty/],
  ["a directory that is no text", { cwd: 5 }, "cwd", /directory/],
  ["a negative timeout", { timeoutMs: -1 }, "timeoutMs", /timeoutMs.*-1/],
  ["a timeout that is no number", { timeoutMs: Number.NaN }, "timeoutMs", /timeoutMs.*NaN/],
  [
    "an infinite timeout",
    { noOutputTimeoutMs: Infinity },
    "noOutputTimeoutMs",
    /noOutputTimeoutMs.*Infinity/,
  ],
  ["half a millisecond of grace", { graceMs: 0.5 }, "graceMs", /graceMs.*0\.5/],
  ["a grace that is text", { graceMs: "5s" }, "graceMs", /graceMs.*5s/],
  ["a window without rows", { size: { rows: 0, cols: 80 } }, "size", /rows.*0/],
  ["a window that is too wide", { size: { rows: 24, cols: 65_536 } }, "size", /cols.*65536/],
  ["a umask beyond its bits", { umask: 0o1000 }, "umask", /umask.*512/],
  ["an unknown kind", { kind: "daemon" }, "kind", /task, service.*"daemon"/],
  ["an unknown escape policy", { onEscape: "ignore" }, "onEscape", /fail, sweep.*"ignore"/],
  ["an unknown stdin", { stdin: "inherit" }, "stdin", /pipe, null.*"inherit"/],
  ["an unknown spool policy", { stdout: { policy: "newest" } }, "stdout.policy", /"newest"/],
  ["a negative bound", { stderr: { boundBytes: -1 } }, "stderr.boundBytes", /-1/],
  ["a label without a key", { labels: { "": "x" } }, "labels", /labels/],
  ["a label that is no text", { labels: { a: 1 } }, "labels", /the value of a/],
  ["a variable without a name", { env: { "": "x" } }, "env", /needs a name/],
  ["a variable with = in its name", { env: { "A=B": "x" } }, "env", /"A=B"/],
  ["a NUL in a variable", { env: { A: "x\0y" } }, "env", /value of A/],
  ["a variable that is no text", { env: { A: 1 } }, "env", /value of A/],
  ["a variable that injects code", { env: { LD_PRELOAD: "/x.so" } }, "env", /LD_PRELOAD/],
  ["one of those in lower case", { env: { node_options: "--x" } }, "env", /node_options/],
  ["another than the one allowed", { env: { LD_AUDIT: "x" }, allowEnv: ["LD_PRELOAD"] }, "env", /LD_AUDIT/],
  ["a marker variable", { env: { HOLDFAST_LEASE_ID: "x" } }, "env", /HOLDFAST_LEASE_ID/],
  ["a NUL in the session's key", { sessionKey: "a\0b" }, "sessionKey", /session/i],
  ["a session's key that is no text", { sessionKey: {} }, "sessionKey", /session/i],
  ["an aborted signal", { signal: AbortSignal.abort() }, "signal", /aborted before the call/],
])("%s is refused with its field, before anything is recorded", async (_, options, field, message) => {
  const world = fakeSupervisor();
  const error = await spawnFakeRun(world, options).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(BadInput);
  expect(error).toMatchObject({
    code: "BAD_INPUT",
    field,
    message: expect.stringMatching(message) as string,
  });
  expect(world.store.log).toEqual([]);
  expect(world.host.specs).toEqual([]);
});

test("an empty command is refused before anything is recorded", async () => {
  const world = fakeSupervisor();
  await expect(world.supervisor.spawn({ io: "pipe", argv: [] })).rejects.toThrow(BadInput);
  expect(world.store.log).toEqual([]);
});

test("an abort while the anchor starts stops the run without GO", async () => {
  const world = fakeSupervisor();
  const controller = new AbortController();
  world.host.prepare = () => controller.abort();
  const pending = spawnFakeRun(world, { signal: controller.signal });
  await waitFor(() => world.host.anchors.size === 1 && world.host.last.stops.length > 0);
  world.host.last.exit({ executed: false, leader: null });
  const run = await pending;
  expect(world.host.last.goCount).toBe(0);
  expect((await run.wait()).exit).toMatchObject({ reason: "manual-cancel" });
});

test("a thousand runs with one signal use one listener, and one abort stops them all", async () => {
  const world = fakeSupervisor();
  const controller = new AbortController();
  await Promise.all(Array.from({ length: 1_000 }, () => spawnFakeRun(world, { signal: controller.signal })));
  await nextTurn();
  controller.abort();
  const anchors = [...world.host.anchors.values()];
  expect(anchors.every(({ stops }) => stops.length === 1)).toBe(true);
  for (const anchor of anchors) anchor.exit();
  await waitFor(() => [...world.store.runs.values()].every(({ state }) => state === "exited"));
});
