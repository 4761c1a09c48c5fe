import { copyFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, test } from "vitest";
import { resolveRun } from "../../../src/cli/client/resolve-run.js";
import type { LocalState } from "../../../src/queries/local-state-directory.js";
import { stopFoundRun } from "../../../src/cli/stop/stop-coordinator.js";
import { mountSmallDisk, whyNoMounts } from "../../support/small-disk.js";
import { RecoveryFixture, TWO_PROCESSES } from "../../support/cli/recovery-fixture.js";
import { readProcess } from "../../support/live-processes.js";
import { FakeAnchor } from "../../support/supervisor/fake-anchor.js";
import { FakeHost } from "../../support/supervisor/fake-host.js";

const ACTOR = /^cli:/;

/** Stops a run and expects that no process is left. Returns stderr. */
async function stops(fixture: RecoveryFixture, runId: string): Promise<string> {
  const { code, stdout, stderr } = await fixture.holdfast("runs", "cancel", runId, "--json");
  expect(JSON.parse(stdout)).toMatchObject({ runId, outcome: "gone" });
  expect(code).toBe(0);
  expect(await fixture.membersOf(runId)).toEqual([]);
  return stderr;
}

/** Expects that the next gateway writes each terminal record once. */
async function areRecorded(fixture: RecoveryFixture, ...runIds: readonly string[]): Promise<void> {
  fixture.expireLeases();
  const gateway = await fixture.gateway();
  for (const runId of runIds)
    expect(await fixture.waitForEnd(runId)).toMatchObject({
      exit: { reason: "manual-cancel", actor: expect.stringMatching(ACTOR) },
      emptiness: "proven",
    });
  await gateway.kill("SIGTERM");
  for (const runId of runIds)
    expect((await fixture.events(runId)).filter(({ type }) => type === "exit")).toHaveLength(1);
}

describe.concurrent("runs cancel", () => {
  test("stops a run without a gateway, once for two concurrent requests; the next gateway writes its record", async () => {
    await using fixture = await RecoveryFixture.open();
    const [runId = "", twice = ""] = await fixture.leaveRuns([TWO_PROCESSES], [TWO_PROCESSES]);
    expect(await fixture.membersOf(runId)).toHaveLength(3);
    expect(await stops(fixture, runId)).toBe(
      `holdfast: no gateway is running; stopped ${runId} directly; the next gateway completes its record\n`,
    );
    expect(await fixture.record(runId)).toMatchObject({ state: "running" });
    const both = await Promise.all([1, 2].map(() => fixture.holdfast("runs", "cancel", twice)));
    expect(both.map(({ code }) => code)).toEqual([0, 0]);
    expect(await fixture.holdfast("runs", "cancel", twice)).toMatchObject({
      code: 0,
      stdout: `${twice}: it has ended: manual-cancel\n`,
    });
    await areRecorded(fixture, runId, twice);
  });

  test("with --kill or a shorter grace period does not wait for a process that ignores TERM", async () => {
    await using fixture = await RecoveryFixture.open();
    const deaf = "trap '' TERM; echo up; while :; do sleep 0.05; done";
    const [one = "", other = ""] = await fixture.leaveRuns(
      [deaf, { graceMs: 600_000 }],
      [deaf, { graceMs: 600_000 }],
    );
    expect(await fixture.holdfast("runs", "cancel", one, "--kill")).toMatchObject({ code: 0 });
    expect(await fixture.holdfast("runs", "cancel", other, "--grace", "100ms")).toMatchObject({ code: 0 });
    expect([await fixture.membersOf(one), await fixture.membersOf(other)]).toEqual([[], []]);
  });

  test("accepts the beginning of an id; refuses an ambiguous or unknown one", async () => {
    await using fixture = await RecoveryFixture.open();
    const [one = "", other = ""] = await fixture.leaveRuns(["echo up; sleep 7003"], ["echo up; sleep 7003"]);
    const several = await fixture.holdfast("runs", "cancel", "run_");
    expect(several).toMatchObject({ code: 2, stdout: "" });
    expect(several.stderr).toContain([one, other].toSorted().join(", "));
    const nobody = ["", "zzzz", "%", "../.."];
    const answers = await Promise.all(nobody.map((nothing) => fixture.holdfast("runs", "cancel", nothing)));
    for (const [at, nothing] of nobody.entries())
      expect(answers[at]).toMatchObject({
        code: 1,
        stderr: `${`holdfast: no run ${nothing}`.trim()}\n`,
      });
    expect(await fixture.membersOf(one)).not.toEqual([]);
    for (const runId of [one, other])
      expect(await fixture.holdfast("runs", "cancel", runId.slice(4, 14))).toMatchObject({ code: 0 });
  });

  test("ends the verified processes of a run whose anchor and launcher are dead", async () => {
    await using fixture = await RecoveryFixture.open();
    const [runId = ""] = await fixture.leaveRuns([TWO_PROCESSES]);
    const { anchor } = await fixture.record(runId);
    const launcher = readProcess(anchor?.pid ?? 0)?.parentPid ?? 0;
    expect(readProcess(launcher)?.argv).toContain("launch");
    process.kill(launcher, "SIGKILL");
    process.kill(anchor?.pid ?? 0, "SIGKILL");
    expect(await fixture.membersOf(runId)).toHaveLength(3);
    const { code, stdout } = await fixture.holdfast("runs", "cancel", runId);
    expect(stdout).toMatch(new RegExp(`^${runId} is gone \\(its anchor is dead; .*proven empty\\)\n$`));
    expect(code).toBe(0);
    expect(await fixture.membersOf(runId)).toEqual([]);
    fixture.expireLeases();
    expect(await fixture.holdfast("runs", "cleanup", "--run", runId, "--yes")).toMatchObject({ code: 0 });
    expect(await fixture.waitForEnd(runId)).toMatchObject({ exit: { reason: "lost" }, emptiness: "proven" });
  });
});

describe.concurrent("runs cancel with a store", () => {
  test("that cannot be read stops the run, and its end is recorded when the store is restored", async () => {
    await using fixture = await RecoveryFixture.open();
    const runIds = await fixture.leaveRuns(...Array.from({ length: 5 }, () => [TWO_PROCESSES] as const));
    const [truncated = "", garbage = "", newer = "", empty = "", locked = ""] = runIds;
    const stopsWith = async (runId: string, word: string): Promise<void> => {
      const told = await stops(fixture, runId);
      expect(told).toContain(word);
      expect(told).not.toMatch(/\bat .*:\d+:\d+|undefined|\[object/);
    };
    const holder = new DatabaseSync(fixture.store);
    holder.exec("pragma locking_mode = exclusive; begin exclusive; update runs set updated_at = updated_at");
    await stopsWith(locked, "stayed locked");
    holder.exec("rollback");
    holder.close();
    fixture.sql("pragma wal_checkpoint(truncate)");
    const backup = join(fixture.home, "store.backup");
    await copyFile(fixture.store, backup);
    fixture.sql("insert into holdfast_migrations (id, name, applied_at) values (9999, 'x', 0)");
    await stopsWith(newer, "newer Holdfast");
    await truncate(fixture.store, 5_000);
    await stopsWith(truncated, "damaged");
    await writeFile(fixture.store, "garbage".repeat(3_000));
    await stopsWith(garbage, "damaged");
    await writeFile(fixture.store, "");
    await stopsWith(empty, "");
    for (const rest of ["-wal", "-shm"]) await rm(`${fixture.store}${rest}`, { force: true });
    await copyFile(backup, fixture.store);
    await areRecorded(fixture, ...runIds);
  });

  test("that its gateway can or cannot write stops the run, and the gateway records the end as soon as it can", async () => {
    await using disk = whyNoMounts === null ? mountSmallDisk("16m") : null;
    await using fixture = await RecoveryFixture.open(disk?.path);
    const [runId = "", locked = "", full = ""] = await fixture.leaveOrphans(
      [TWO_PROCESSES],
      [TWO_PROCESSES],
      [TWO_PROCESSES],
    );
    const gateway = await fixture.gateway();
    const isRecorded = async (ended: string): Promise<void> => {
      expect(await fixture.waitForEnd(ended)).toMatchObject({ exit: { reason: "manual-cancel" } });
    };
    expect(await stops(fixture, runId)).toBe("");
    await isRecorded(runId);
    expect((await fixture.holdfast("runs", "cancel", runId)).stdout).toContain("manual-cancel");

    const holder = new DatabaseSync(fixture.store);
    holder.exec("begin exclusive");
    await stops(fixture, locked);
    await gateway.waitForEvent("problem", ({ message, cause }) => `${message} ${cause}`.includes("locked"));
    holder.exec("rollback");
    holder.close();
    await isRecorded(locked);

    const filler = join(disk?.path ?? fixture.home, "..", "filler");
    if (disk !== null) await writeFile(filler, Buffer.alloc(64 * 1024 * 1024)).catch(() => {});
    await stops(fixture, full);
    await rm(filler, { force: true });
    await isRecorded(full);
    await gateway.kill("SIGTERM");
  });
});

function localStateOf(host: FakeHost): LocalState {
  const directory = {
    home: "/nowhere",
    storePath: "/nowhere/store.sqlite",
    instancesPath: "/nowhere/instances",
  };
  return {
    host: host as unknown as LocalState["host"],
    directory,
    [Symbol.asyncDispose]: async () => undefined,
  };
}

test("a run is found although another instance's directory cannot be read", async () => {
  const host = new FakeHost();
  host.locals = ["in_closed", "in_test"].map((instanceId) => ({ instanceId, alive: true, launched: true }));
  Object.assign(host, {
    listRunIds: async (instanceId: string) =>
      instanceId === "in_test" ? ["run_wanted"] : Promise.reject(new Error("EACCES")),
  });
  expect(await resolveRun(localStateOf(host), "wanted")).toMatchObject({
    runId: "run_wanted",
    address: { instanceId: "in_test" },
  });
});

test("a run that is abandoned during its stop is not reported as gone", async () => {
  const host = new FakeHost();
  const anchor = new FakeAnchor("run_stuck", 1, 100);
  host.anchors.set("run_stuck", anchor);
  const left = { pid: 101, startTime: 5, kind: "unkillable", command: "dd" } as const;
  anchor.stop = () => anchor.exit({ reason: "lost", emptiness: "unproven", residue: [left] });
  const run = {
    runId: "run_stuck",
    address: { instanceId: "in_test", runId: "run_stuck" },
    record: null,
    unread: null,
  };
  expect(await stopFoundRun(localStateOf(host), run, null)).toMatchObject({
    outcome: "survivors",
    survivors: [{ pid: 101 }],
  });
});

test("a run whose end its anchor cannot prove is not reported as gone, and the answer says why", async () => {
  const host = new FakeHost();
  const anchor = new FakeAnchor("run_unproven", 1, 100);
  host.anchors.set("run_unproven", anchor);
  anchor.stop = () =>
    anchor.exit({
      reason: "manual-cancel",
      emptiness: "unproven",
      emptinessNote: "process 7 (sh) was started",
    });
  const run = {
    runId: "run_unproven",
    address: { instanceId: "in_test", runId: "run_unproven" },
    record: null,
    unread: null,
  };
  expect(await stopFoundRun(localStateOf(host), run, null)).toMatchObject({
    outcome: "unknown",
    detail: expect.stringContaining("process 7 (sh) was started"),
  });
});
