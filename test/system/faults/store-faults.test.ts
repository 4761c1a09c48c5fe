import { existsSync } from "node:fs";
import { cp, mkdir, readdir, rename, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, test } from "vitest";
import { mountSmallDisk, whyNoMounts } from "../../support/small-disk.js";
import { RecoveryFixture, RunGate, TWO_PROCESSES } from "../../support/cli/recovery-fixture.js";
import { soak } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

/** Stack traces and unformatted values. */
const INSIDES = /\bat .*:\d+:\d+|\(node:|undefined|\[object/;

/** A run is stopped through its anchor, in any state of the store. */
async function stops(fixture: RecoveryFixture, runId: string): Promise<void> {
  expect(await fixture.holdfast("runs", "cancel", runId)).toMatchObject({ code: 0 });
  expect(await fixture.membersOf(runId)).toEqual([]);
}

/** Runs without an owner: one that ends with 9, one of two processes, one that ends with 7. */
async function leaveThree(
  fixture: RecoveryFixture,
  first: RunGate,
  last: RunGate,
): Promise<Record<"over" | "stopped" | "going", string>> {
  const [over = "", stopped = "", going = ""] = await fixture.leaveOrphans(
    [first.waitScript(9)],
    [TWO_PROCESSES],
    [last.waitScript(7), { timeoutMs: 600_000 }],
  );
  return { over, stopped, going };
}

async function live(fixture: RecoveryFixture, ...runIds: readonly string[]): Promise<void> {
  for (const runId of runIds) expect(await fixture.membersOf(runId), runId).not.toEqual([]);
}

/** A gateway that cannot be started on this store prints one clear line. */
async function refusesToStart(fixture: RecoveryFixture, word: string): Promise<void> {
  const { code, stdout, stderr } = await fixture.holdfast("gateway", "run", "--json");
  expect({ code, stdout }).toEqual({ code: 125, stdout: "" });
  expect(stderr).toMatch(/^holdfast: [^\n]+\n$/);
  expect(stderr).toContain(fixture.store);
  expect(stderr).toContain(word);
  expect(stderr).not.toMatch(INSIDES);
}

/** The steps of docs/guides/repair.md. */
async function repair(fixture: RecoveryFixture): Promise<void> {
  const away = join(fixture.home, "damaged");
  await mkdir(away);
  for (const name of await readdir(fixture.home))
    if (/^store\.sqlite(?:-wal|-shm)?$/.test(name)) await rename(join(fixture.home, name), join(away, name));
}

/** The next gateway attaches to the live run, and records the true end of those that ended. No process was killed. */
async function isWellAgain(
  fixture: RecoveryFixture,
  { gate, going, over, stopped }: { gate: RunGate; going: string; over: string; stopped: string },
): Promise<void> {
  const gateway = await fixture.gateway();
  const { instanceId } = await gateway.waitForEvent("up");
  expect(await fixture.waitForEnd(over)).toMatchObject({
    exit: { reason: "exit", code: 9 },
    emptiness: "proven",
  });
  expect(await fixture.waitForEnd(stopped)).toMatchObject({
    exit: { reason: "manual-cancel" },
    emptiness: "proven",
  });
  expect(await fixture.record(going)).toMatchObject({ state: "running", ownerInstanceId: instanceId });
  await live(fixture, going);
  await gate.release();
  const record = await fixture.waitForEnd(going);
  expect(record).toMatchObject({ exit: { reason: "exit", code: 7 }, emptiness: "proven" });
  expect(record.startedAt).toBeLessThanOrEqual(record.endedAt ?? 0);
  for (const runId of [going, over, stopped])
    expect((await fixture.events(runId)).filter(({ type }) => type === "exit")).toHaveLength(1);
  expect(await gateway.kill("SIGTERM")).toMatchObject({ code: 0, stderr: "" });
}

describe.concurrent("a store", () => {
  test("locked for longer than the renewal of leases: it is reported, nothing is killed or lost, stopping works", async () => {
    await using fixture = await RecoveryFixture.open();
    await using gate = await RunGate.create();
    await using later = await RunGate.create();
    const { over, stopped, going } = await leaveThree(fixture, gate, later);
    const gateway = await fixture.gateway();
    const { instanceId } = await gateway.waitForEvent("up");
    const holder = new DatabaseSync(fixture.store);
    holder.exec("begin exclusive");
    await gate.release();
    await stops(fixture, stopped);
    // Readers see the last commit.
    expect(await fixture.record(over)).toMatchObject({ state: "running" });
    const problem = await gateway.waitForEvent(
      "problem",
      ({ message }) => message.includes("leases"),
      25_000,
    );
    expect(`${problem.message} ${problem.cause}`).toContain("locked");
    expect(problem.cause).not.toMatch(INSIDES);
    await live(fixture, going);
    holder.exec("rollback");
    holder.close();
    expect(await fixture.waitForEnd(over)).toMatchObject({ exit: { reason: "exit", code: 9 } });
    expect(await fixture.waitForEnd(stopped)).toMatchObject({ exit: { reason: "manual-cancel" } });
    expect(await fixture.record(going)).toMatchObject({
      state: "running",
      ownerInstanceId: instanceId,
      leaseEpoch: 2,
    });
    await later.release();
    expect(await fixture.waitForEnd(going)).toMatchObject({ exit: { reason: "exit", code: 7 } });
    await gateway.kill("SIGTERM");
  });

  const fillerOf = (path: string): string => join(path, "..", "filler");
  const fill = (path: string): Promise<void> =>
    writeFile(fillerOf(path), Buffer.alloc(64 * 1024 * 1024)).catch(() => {});

  test("on a disk that is full while a gateway holds runs: all that happened is on record when there is space", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("16m");
    await using fixture = await RecoveryFixture.open(disk.path);
    await using gate = await RunGate.create();
    await using later = await RunGate.create();
    const { over, stopped, going } = await leaveThree(fixture, gate, later);
    const gateway = await fixture.gateway();
    // The WAL is empty now: the next write needs space.
    fixture.sql("pragma wal_checkpoint(truncate)");
    await fill(disk.path);
    await gate.release();
    await stops(fixture, stopped);
    const problem = await gateway.waitForEvent("problem", ({ cause }) => cause.includes("no space"));
    expect(problem.cause).not.toMatch(INSIDES);
    await live(fixture, going);
    expect((await fixture.holdfast("runs", "list")).stdout).toContain(going);
    await rm(fillerOf(disk.path));
    expect(await fixture.waitForEnd(over)).toMatchObject({
      exit: { reason: "exit", code: 9 },
      emptiness: "proven",
    });
    expect(await fixture.waitForEnd(stopped)).toMatchObject({ exit: { reason: "manual-cancel" } });
    await later.release();
    expect(await fixture.waitForEnd(going)).toMatchObject({ exit: { reason: "exit", code: 7 } });
    await gateway.kill("SIGTERM");
  });

  test.for(["before a gateway starts", ...(soak ? ["when it is killed"] : []), "when it is stopped"])(
    "on a disk that is full %s: its runs continue, can be stopped, and are attached again when there is space",
    async (moment, context) => {
      if (whyNoMounts !== null) context.skip(whyNoMounts);
      await using disk = mountSmallDisk("16m");
      await using fixture = await RecoveryFixture.open(disk.path);
      await using gate = await RunGate.create();
      await using other = await RunGate.create();
      const { over, stopped, going } = await leaveThree(fixture, other, gate);
      if (moment !== "before a gateway starts") {
        const before = await fixture.gateway();
        fixture.sql("pragma wal_checkpoint(truncate)");
        await fill(disk.path);
        const { code } = await before.kill(moment === "when it is killed" ? "SIGKILL" : "SIGTERM");
        expect(code).toBe(moment === "when it is killed" ? null : 0);
      } else fixture.sql("pragma wal_checkpoint(truncate)");
      await fill(disk.path);
      // It may refuse, or start and report the failure.
      const full = fixture.start("gateway", "run");
      let stderr = "";
      full.child.stderr.on("data", (text: Buffer) => (stderr += text.toString()));
      await waitFor("it reports the failure", () => /no space|ENOSPC|full/.test(stderr));
      expect(stderr).not.toMatch(INSIDES);
      await other.release();
      await stops(fixture, stopped);
      await live(fixture, going);
      full.child.kill("SIGKILL");
      await full.finished;
      await rm(fillerOf(disk.path));
      fixture.expireLeases();
      await isWellAgain(fixture, { gate, going, over, stopped });
    },
  );

  test("cut off, replaced by garbage, or of a newer version: a gateway does not start on it; after the repair every live run is attached and has its true end", async () => {
    await using fixture = await RecoveryFixture.open();
    await using gate = await RunGate.create();
    await using other = await RunGate.create();
    const { over, stopped, going } = await leaveThree(fixture, other, gate);
    const gateway = await fixture.gateway();
    await gateway.kill();
    fixture.sql("pragma wal_checkpoint(truncate)");
    fixture.sql("insert into holdfast_migrations (id, name, applied_at) values (9999, 'x', 0)");
    await refusesToStart(fixture, "newer Holdfast");
    await truncate(fixture.store, 5_000);
    await refusesToStart(fixture, "damaged");
    await writeFile(fixture.store, "garbage".repeat(3_000));
    await refusesToStart(fixture, "damaged");
    await live(fixture, over, stopped, going);
    await other.release();
    await stops(fixture, stopped);
    await repair(fixture);
    await isWellAgain(fixture, { gate, going, over, stopped });
  });

  test("that is cut off under a running gateway: nothing is killed, and the repair restores all runs", async () => {
    await using fixture = await RecoveryFixture.open();
    await using gate = await RunGate.create();
    await using other = await RunGate.create();
    const { over, stopped, going } = await leaveThree(fixture, other, gate);
    const gateway = await fixture.gateway();
    fixture.sql("pragma wal_checkpoint(truncate)");
    await truncate(fixture.store, 5_000);
    await other.release();
    await stops(fixture, stopped);
    await live(fixture, going);
    // It stops although it cannot write.
    expect(await gateway.kill("SIGTERM")).toMatchObject({ code: 0, stderr: "" });
    for (const { type, ...rest } of gateway.events)
      if (type === "problem") expect(JSON.stringify(rest)).not.toMatch(INSIDES);
    await live(fixture, going);
    await refusesToStart(fixture, "damaged");
    await repair(fixture);
    await isWellAgain(fixture, { gate, going, over, stopped });
  });
});

describe.concurrent("an old copy of the state directory that replaces it", () => {
  test("keeps its live runs; a later run is attached again when its instance directory is restored too", async () => {
    await using fixture = await RecoveryFixture.open();
    await using old = await RunGate.create();
    await using young = await RunGate.create();
    await using between = await RunGate.create();
    const [before = "", meanwhile = ""] = await fixture.leaveOrphans(
      [old.waitScript(7)],
      [between.waitScript(9)],
    );
    const first = await fixture.gateway();
    const [backup, away] = [`${fixture.home}.backup`, `${fixture.home}.away`];
    try {
      // Like a backup: while the files are in use, and without sockets.
      fixture.sql("pragma wal_checkpoint(truncate)");
      await cp(fixture.home, backup, { recursive: true, filter: (path) => !path.endsWith("sock") });
      await between.release();
      await fixture.waitForEnd(meanwhile);
      const [since = ""] = await fixture.leaveOrphans([young.waitScript(8)]);
      await first.kill();
      await rename(fixture.home, away);
      await rename(backup, fixture.home);
      expect(await fixture.holdfast("state", "keep-identity", "--yes")).toMatchObject({ code: 0 });

      const second = await fixture.gateway();
      // Its end is only in the directory that was moved away.
      expect(await fixture.waitForEnd(meanwhile)).toMatchObject({ exit: { reason: "lost" } });
      await live(fixture, before, since);
      // Its anchor notices within seconds that its directory was replaced.
      const { originInstanceId } = await fixture.record(before);
      const socket = join(fixture.home, "instances", originInstanceId, "runs", before, "sock");
      await waitFor("its anchor listens here", () => existsSync(socket));
      for (const name of await readdir(join(away, "instances")))
        if (existsSync(join(away, "instances", name, "runs", since)))
          await rename(join(away, "instances", name), join(fixture.home, "instances", name));
      await second.kill();
      const third = await fixture.gateway();
      expect(await third.waitForEvent("decision", ({ runId }) => runId === since)).toMatchObject({
        action: "continue",
      });
      await young.release();
      expect(await fixture.waitForEnd(since)).toMatchObject({ exit: { reason: "exit", code: 8 } });
      await old.release();
      expect(await fixture.waitForEnd(before)).toMatchObject({ exit: { reason: "exit", code: 7 } });
      await third.kill("SIGTERM");
    } finally {
      await rm(backup, { recursive: true, force: true });
      await rm(away, { recursive: true, force: true });
    }
  });

  test("of the store alone: every run is restored, with its true end", async () => {
    await using fixture = await RecoveryFixture.open();
    await using gate = await RunGate.create();
    await using other = await RunGate.create();
    const [going = ""] = await fixture.leaveOrphans([gate.waitScript(7)]);
    fixture.sql("pragma wal_checkpoint(truncate)");
    const backup = join(fixture.home, "old.sqlite");
    await cp(fixture.store, backup);
    const [over = "", stopped = ""] = await fixture.leaveOrphans([other.waitScript(9)], [TWO_PROCESSES]);
    const gateway = await fixture.gateway();
    await gateway.kill();
    await other.release();
    await stops(fixture, stopped);
    for (const rest of ["", "-wal", "-shm"]) await rm(`${fixture.store}${rest}`, { force: true });
    await rename(backup, fixture.store);
    fixture.expireLeases();
    await isWellAgain(fixture, { gate, going, over, stopped });
  });
});
