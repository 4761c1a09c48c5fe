import { existsSync } from "node:fs";
import { cp, mkdir, readdir, rename, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, test } from "vitest";
import { until } from "../io/until.js";
import { mountSmallDisk, whyNoMounts } from "../store/mounts.js";
import { Field, Gate, PAIR } from "./field.js";

/** No trace of our own insides. */
const INSIDES = /\bat .*:\d+:\d+|\(node:|undefined|\[object/;

/** Stopped through its anchor, whatever the store is like. */
async function stops(field: Field, runId: string): Promise<void> {
  expect(await field.holdfast("runs", "cancel", runId)).toMatchObject({ code: 0 });
  expect(await field.membersOf(runId)).toEqual([]);
}

async function live(field: Field, ...runIds: readonly string[]): Promise<void> {
  for (const runId of runIds) expect(await field.membersOf(runId), runId).not.toEqual([]);
}

/** A gateway that cannot be started on this store: one clear line. */
async function refusesToStart(field: Field, word: string): Promise<void> {
  const { code, stdout, stderr } = await field.holdfast("gateway", "run", "--json");
  expect({ code, stdout }).toEqual({ code: 125, stdout: "" });
  expect(stderr).toMatch(/^holdfast: [^\n]+\n$/);
  expect(stderr).toContain(field.store);
  expect(stderr).toContain(word);
  expect(stderr).not.toMatch(INSIDES);
}

/** As docs/leases.md says under Repair. */
async function repair(field: Field): Promise<void> {
  const away = join(field.home, "damaged");
  await mkdir(away);
  for (const name of await readdir(field.home))
    if (/^store\.sqlite(?:-wal|-shm)?$/.test(name)) await rename(join(field.home, name), join(away, name));
}

/** It holds what lives; what has ended meanwhile is on record with its true end; nobody was killed. */
async function isWellAgain(
  field: Field,
  { gate, going, over, stopped }: { gate: Gate; going: string; over: string; stopped: string },
): Promise<void> {
  const gateway = await field.gateway();
  const { instanceId } = await gateway.hears("up");
  expect(await field.ended(over)).toMatchObject({ exit: { reason: "exit", code: 9 }, emptiness: "proven" });
  expect(await field.ended(stopped)).toMatchObject({
    exit: { reason: "manual-cancel" },
    emptiness: "proven",
  });
  expect(await field.record(going)).toMatchObject({ state: "running", ownerInstanceId: instanceId });
  await live(field, going);
  await gate.open();
  const record = await field.ended(going);
  expect(record).toMatchObject({ exit: { reason: "exit", code: 7 }, emptiness: "proven" });
  expect(record.startedAt).toBeLessThanOrEqual(record.endedAt ?? 0);
  for (const runId of [going, over, stopped])
    expect((await field.events(runId)).filter(({ type }) => type === "exit")).toHaveLength(1);
  expect(await gateway.kill("SIGTERM")).toMatchObject({ code: 0, stderr: "" });
}

describe.concurrent("a store", () => {
  test("locked for longer than leases are renewed in: it is told, nothing is killed or lost, stopping works", async () => {
    await using field = await Field.open();
    await using gate = await Gate.make();
    await using later = await Gate.make();
    const [over = "", stopped = "", going = ""] = await field.orphan(
      [gate.wait(9)],
      [PAIR],
      [later.wait(7), { timeoutMs: 600_000 }],
    );
    const gateway = await field.gateway();
    const { instanceId } = await gateway.hears("up");
    const holder = new DatabaseSync(field.store);
    holder.exec("begin exclusive");
    await gate.open();
    await stops(field, stopped);
    // Reading goes on, and shows what was last known.
    expect(await field.record(over)).toMatchObject({ state: "running" });
    const told = await gateway.hears("problem", ({ message }) => message.includes("leases"), 25_000);
    expect(`${told.message} ${told.cause}`).toContain("locked");
    expect(told.cause).not.toMatch(INSIDES);
    await live(field, going);
    holder.exec("rollback");
    holder.close();
    expect(await field.ended(over)).toMatchObject({ exit: { reason: "exit", code: 9 } });
    expect(await field.ended(stopped)).toMatchObject({ exit: { reason: "manual-cancel" } });
    expect(await field.record(going)).toMatchObject({
      state: "running",
      ownerInstanceId: instanceId,
      leaseEpoch: 2,
    });
    await later.open();
    expect(await field.ended(going)).toMatchObject({ exit: { reason: "exit", code: 7 } });
    await gateway.kill("SIGTERM");
  });

  const fillerOf = (path: string): string => join(path, "..", "filler");
  const fill = (path: string): Promise<void> =>
    writeFile(fillerOf(path), Buffer.alloc(64 * 1024 * 1024)).catch(() => {});

  test("on a disk that is full while a gateway holds runs: all that happened is on record when there is space", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("16m");
    await using field = await Field.open(disk.path);
    await using gate = await Gate.make();
    await using later = await Gate.make();
    const [over = "", stopped = "", going = ""] = await field.orphan([gate.wait(9)], [PAIR], [later.wait(7)]);
    const gateway = await field.gateway();
    // The log is short from here on: the next write needs room.
    field.sql("pragma wal_checkpoint(truncate)");
    await fill(disk.path);
    await gate.open();
    await stops(field, stopped);
    const told = await gateway.hears("problem", ({ cause }) => cause.includes("no space"));
    expect(told.cause).not.toMatch(INSIDES);
    await live(field, going);
    expect((await field.holdfast("runs", "list")).stdout).toContain(going);
    await rm(fillerOf(disk.path));
    expect(await field.ended(over)).toMatchObject({ exit: { reason: "exit", code: 9 }, emptiness: "proven" });
    expect(await field.ended(stopped)).toMatchObject({ exit: { reason: "manual-cancel" } });
    await later.open();
    expect(await field.ended(going)).toMatchObject({ exit: { reason: "exit", code: 7 } });
    await gateway.kill("SIGTERM");
  });

  test.for(["before a gateway starts", "when it is killed", "when it lets go"])(
    "on a disk that is full %s: its runs live, can be stopped, and are taken up when there is space",
    async (moment, context) => {
      if (whyNoMounts !== null) context.skip(whyNoMounts);
      await using disk = mountSmallDisk("16m");
      await using field = await Field.open(disk.path);
      await using gate = await Gate.make();
      await using other = await Gate.make();
      const [over = "", stopped = "", going = ""] = await field.orphan(
        [other.wait(9)],
        [PAIR],
        [gate.wait(7)],
      );
      if (moment !== "before a gateway starts") {
        const before = await field.gateway();
        field.sql("pragma wal_checkpoint(truncate)");
        await fill(disk.path);
        const { code } = await before.kill(moment === "when it is killed" ? "SIGKILL" : "SIGTERM");
        expect(code).toBe(moment === "when it is killed" ? null : 0);
      } else field.sql("pragma wal_checkpoint(truncate)");
      await fill(disk.path);
      // It may refuse, or come up and say what fails; it must not pretend, nor harm anybody.
      const full = field.start("gateway", "run");
      let said = "";
      full.child.stderr.on("data", (text: Buffer) => (said += text.toString()));
      await until("it says what is wrong", () => /no space|ENOSPC|full/.test(said));
      expect(said).not.toMatch(INSIDES);
      await other.open();
      await stops(field, stopped);
      await live(field, going);
      full.child.kill("SIGKILL");
      await full.finished;
      await rm(fillerOf(disk.path));
      field.expireLeases();
      await isWellAgain(field, { gate, going, over, stopped });
    },
  );

  type Damage = readonly [what: string, spoil: (field: Field) => Promise<void> | void, word: string];
  test.for<Damage>([
    ["cut off", (field) => truncate(field.store, 5_000), "damaged"],
    ["replaced by garbage", (field) => writeFile(field.store, "garbage".repeat(3_000)), "damaged"],
    [
      "of a newer version",
      (field) => field.sql("insert into holdfast_migrations (id, name, applied_at) values (9999, 'x', 0)"),
      "newer Holdfast",
    ],
  ])(
    "%s: a gateway does not start on it; after the repair every live run is held again and ends truly",
    async ([, spoil, word]) => {
      await using field = await Field.open();
      await using gate = await Gate.make();
      await using other = await Gate.make();
      const [over = "", stopped = "", going = ""] = await field.orphan(
        [other.wait(9)],
        [PAIR],
        [gate.wait(7)],
      );
      const gateway = await field.gateway();
      await gateway.kill();
      field.sql("pragma wal_checkpoint(truncate)");
      await spoil(field);
      await refusesToStart(field, word);
      await live(field, over, stopped, going);
      await other.open();
      await stops(field, stopped);
      await repair(field);
      await isWellAgain(field, { gate, going, over, stopped });
    },
  );

  test("that is cut off under a running gateway: nothing is killed, and the repair brings all of it back", async () => {
    await using field = await Field.open();
    await using gate = await Gate.make();
    await using other = await Gate.make();
    const [over = "", stopped = "", going = ""] = await field.orphan([other.wait(9)], [PAIR], [gate.wait(7)]);
    const gateway = await field.gateway();
    field.sql("pragma wal_checkpoint(truncate)");
    await truncate(field.store, 5_000);
    await other.open();
    await stops(field, stopped);
    await live(field, going);
    // Told to stop, it does, whatever it could not write.
    expect(await gateway.kill("SIGTERM")).toMatchObject({ code: 0, stderr: "" });
    for (const { type, ...rest } of gateway.news)
      if (type === "problem") expect(JSON.stringify(rest)).not.toMatch(INSIDES);
    await live(field, going);
    await refusesToStart(field, "damaged");
    await repair(field);
    await isWellAgain(field, { gate, going, over, stopped });
  });
});

describe.concurrent("an old copy of the state directory, put back", () => {
  test("keeps its live runs; what was started since is held again when its instance is put back, too", async () => {
    await using field = await Field.open();
    await using old = await Gate.make();
    await using young = await Gate.make();
    await using between = await Gate.make();
    const [before = "", meanwhile = ""] = await field.orphan([old.wait(7)], [between.wait(9)]);
    const first = await field.gateway();
    const [backup, away] = [`${field.home}.backup`, `${field.home}.away`];
    try {
      // As a backup would: while everything is in use, and without sockets.
      field.sql("pragma wal_checkpoint(truncate)");
      await cp(field.home, backup, { recursive: true, filter: (path) => !path.endsWith("sock") });
      await between.open();
      await field.ended(meanwhile);
      const [since = ""] = await field.orphan([young.wait(8)]);
      await first.kill();
      await rename(field.home, away);
      await rename(backup, field.home);
      expect(await field.holdfast("state", "keep-identity", "--yes")).toMatchObject({ code: 0 });

      const second = await field.gateway();
      // Its end is in the directory that was moved away: nobody here can know it.
      expect(await field.ended(meanwhile)).toMatchObject({ exit: { reason: "lost" } });
      await live(field, before, since);
      // Its anchor notices, within seconds, that its directory is another one now.
      const { originInstanceId } = await field.record(before);
      const socket = join(field.home, "instances", originInstanceId, "runs", before, "sock");
      await until("its anchor listens here", () => existsSync(socket));
      for (const name of await readdir(join(away, "instances")))
        if (existsSync(join(away, "instances", name, "runs", since)))
          await rename(join(away, "instances", name), join(field.home, "instances", name));
      await second.kill();
      const third = await field.gateway();
      expect(await third.hears("decision", ({ runId }) => runId === since)).toMatchObject({
        action: "continue",
      });
      await young.open();
      expect(await field.ended(since)).toMatchObject({ exit: { reason: "exit", code: 8 } });
      await old.open();
      expect(await field.ended(before)).toMatchObject({ exit: { reason: "exit", code: 7 } });
      await third.kill("SIGTERM");
    } finally {
      await rm(backup, { recursive: true, force: true });
      await rm(away, { recursive: true, force: true });
    }
  });

  test("of the store alone costs nothing: every run is there again, with its true end", async () => {
    await using field = await Field.open();
    await using gate = await Gate.make();
    await using other = await Gate.make();
    const [going = ""] = await field.orphan([gate.wait(7)]);
    field.sql("pragma wal_checkpoint(truncate)");
    const backup = join(field.home, "old.sqlite");
    await cp(field.store, backup);
    const [over = "", stopped = ""] = await field.orphan([other.wait(9)], [PAIR]);
    const gateway = await field.gateway();
    await gateway.kill();
    await other.open();
    await stops(field, stopped);
    for (const rest of ["", "-wal", "-shm"]) await rm(`${field.store}${rest}`, { force: true });
    await rename(backup, field.store);
    field.expireLeases();
    await isWellAgain(field, { gate, going, over, stopped });
  });
});
