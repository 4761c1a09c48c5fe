import { copyFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { describe, expect, test } from "vitest";
import { mountSmallDisk, whyNoMounts } from "../../store/mounts.js";
import { Field, PAIR } from "../field.js";
import { look } from "../../tree/living.js";

const ACTOR = /^cli:/;

/** Stopped by key: everything is gone, whatever the store is like. */
async function stops(field: Field, runId: string): Promise<string> {
  const { code, stdout, stderr } = await field.holdfast("runs", "cancel", runId, "--json");
  expect(JSON.parse(stdout)).toMatchObject({ runId, outcome: "gone" });
  expect(code).toBe(0);
  expect(await field.membersOf(runId)).toEqual([]);
  return stderr;
}

/** The next gateway finds how it ended and writes it down, once. */
async function isRecorded(field: Field, runId: string): Promise<void> {
  field.expireLeases();
  const gateway = await field.gateway();
  expect(await field.ended(runId)).toMatchObject({
    exit: { reason: "manual-cancel", actor: expect.stringMatching(ACTOR) },
    emptiness: "proven",
  });
  await gateway.kill("SIGTERM");
  expect((await field.events(runId)).filter(({ type }) => type === "exit")).toHaveLength(1);
}

describe.concurrent("runs cancel", () => {
  test("stops a run with all it started, without a gateway; the next one writes its end down", async () => {
    await using field = await Field.open();
    const [runId = ""] = await field.leave([PAIR]);
    expect(await field.membersOf(runId)).toHaveLength(3);
    expect(await stops(field, runId)).toBe(
      `holdfast: no gateway is running; stopped ${runId} directly; the next gateway completes its record\n`,
    );
    expect(await field.record(runId)).toMatchObject({ state: "running" });
    await isRecorded(field, runId);
  });

  test("under a gateway needs no word about the record: the gateway writes it at once", async () => {
    await using field = await Field.open();
    const [runId = ""] = await field.orphan([PAIR]);
    const gateway = await field.gateway();
    expect(await stops(field, runId)).toBe("");
    expect(await field.ended(runId)).toMatchObject({ exit: { reason: "manual-cancel" } });
    expect((await field.holdfast("runs", "cancel", runId)).stdout).toContain("manual-cancel");
    await gateway.kill("SIGTERM");
  });

  test("answers the second who asks as the first, and the first one's name stays", async () => {
    await using field = await Field.open();
    const [runId = ""] = await field.leave([PAIR]);
    const both = await Promise.all([1, 2].map(() => field.holdfast("runs", "cancel", runId)));
    expect(both.map(({ code }) => code)).toEqual([0, 0]);
    expect(await field.holdfast("runs", "cancel", runId)).toMatchObject({
      code: 0,
      stdout: `${runId}: it has ended: manual-cancel\n`,
    });
    await isRecorded(field, runId);
  });

  test("with --kill or a shorter grace does not wait for who does not listen", async () => {
    await using field = await Field.open();
    const deaf = "trap '' TERM; echo up; while :; do sleep 0.05; done";
    const [one = "", other = ""] = await field.leave(
      [deaf, { graceMs: 600_000 }],
      [deaf, { graceMs: 600_000 }],
    );
    expect(await field.holdfast("runs", "cancel", one, "--kill")).toMatchObject({ code: 0 });
    expect(await field.holdfast("runs", "cancel", other, "--grace", "100ms")).toMatchObject({ code: 0 });
    expect([await field.membersOf(one), await field.membersOf(other)]).toEqual([[], []]);
  });

  test("takes a beginning of the id; of several it names them, of none it says so", async () => {
    await using field = await Field.open();
    const [one = "", other = ""] = await field.leave(["echo up; sleep 7003"], ["echo up; sleep 7003"]);
    const several = await field.holdfast("runs", "cancel", "run_");
    expect(several).toMatchObject({ code: 2, stdout: "" });
    expect(several.stderr).toContain([one, other].toSorted().join(", "));
    const nobody = ["", "zzzz", "%", "../.."];
    const answers = await Promise.all(nobody.map((nothing) => field.holdfast("runs", "cancel", nothing)));
    for (const [at, nothing] of nobody.entries())
      expect(answers[at]).toMatchObject({
        code: 1,
        stderr: `${`holdfast: no run ${nothing}`.trim()}\n`,
      });
    expect(await field.membersOf(one)).not.toEqual([]);
    for (const runId of [one, other])
      expect(await field.holdfast("runs", "cancel", runId.slice(4, 14))).toMatchObject({ code: 0 });
  });

  test("ends the verified processes of a run whose anchor and launcher are dead", async () => {
    await using field = await Field.open();
    const [runId = ""] = await field.leave([PAIR]);
    const { anchor } = await field.record(runId);
    const launcher = look(anchor?.pid ?? 0)?.parentPid ?? 0;
    expect(look(launcher)?.argv).toContain("launch");
    process.kill(launcher, "SIGKILL");
    process.kill(anchor?.pid ?? 0, "SIGKILL");
    expect(await field.membersOf(runId)).toHaveLength(3);
    const { code, stdout } = await field.holdfast("runs", "cancel", runId);
    expect(stdout).toMatch(new RegExp(`^${runId} is gone \\(its anchor is dead; .*proven empty\\)\n$`));
    expect(code).toBe(0);
    expect(await field.membersOf(runId)).toEqual([]);
    field.expireLeases();
    expect(await field.holdfast("runs", "cleanup", "--run", runId, "--yes")).toMatchObject({ code: 0 });
    expect(await field.ended(runId)).toMatchObject({ exit: { reason: "lost" }, emptiness: "proven" });
  });
});

describe.concurrent("runs cancel, whatever the store is like", () => {
  type Spoilt = readonly [
    what: string,
    spoil: (field: Field) => Promise<void>,
    word: string,
    mend: (field: Field) => Promise<void>,
  ];
  const backup = (field: Field): string => join(field.home, "store.backup");
  const restore = async (field: Field): Promise<void> => {
    for (const rest of ["-wal", "-shm"]) await rm(`${field.store}${rest}`, { force: true });
    await copyFile(backup(field), field.store);
  };
  test.each<Spoilt>([
    ["cut off", (field) => truncate(field.store, 5_000), "damaged", restore],
    ["replaced by garbage", (field) => writeFile(field.store, "garbage".repeat(3_000)), "damaged", restore],
    [
      "of a newer version",
      async (field) =>
        field.sql("insert into holdfast_migrations (id, name, applied_at) values (9999, 'x', 0)"),
      "newer Holdfast",
      async (field) => field.sql("delete from holdfast_migrations where id = 9999"),
    ],
    ["empty", (field) => writeFile(field.store, ""), "", restore],
  ])("%s: the run stops, and its end is recorded when the store is mended", async (_, spoil, word, mend) => {
    await using field = await Field.open();
    const [runId = ""] = await field.leave([PAIR]);
    field.sql("pragma wal_checkpoint(truncate)");
    await copyFile(field.store, backup(field));
    await spoil(field);
    const told = await stops(field, runId);
    expect(told).toContain(word);
    expect(told).not.toMatch(/\bat .*:\d+:\d+|undefined|\[object/);
    await mend(field);
    await isRecorded(field, runId);
  });

  test("locked for good: the run stops, and its gateway records it when the lock is gone", async () => {
    await using field = await Field.open();
    const [runId = ""] = await field.orphan([PAIR]);
    const gateway = await field.gateway();
    const holder = new DatabaseSync(field.store);
    holder.exec("begin exclusive");
    await stops(field, runId);
    await gateway.hears("problem", ({ message, cause }) => `${message} ${cause}`.includes("locked"));
    holder.exec("rollback");
    holder.close();
    expect(await field.ended(runId)).toMatchObject({ exit: { reason: "manual-cancel" } });
    await gateway.kill("SIGTERM");
  });

  test("locked against reading, too: the run stops, and its end is recorded when the lock is gone", async () => {
    await using field = await Field.open();
    const [runId = ""] = await field.leave([PAIR]);
    const holder = new DatabaseSync(field.store);
    holder.exec("pragma locking_mode = exclusive; begin exclusive; update runs set updated_at = updated_at");
    expect(await stops(field, runId)).toContain("stayed locked");
    holder.exec("rollback");
    holder.close();
    await isRecorded(field, runId);
  });

  test("on a full disk: the run stops, and its gateway records it when there is space", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("16m");
    await using field = await Field.open(disk.path);
    const [runId = ""] = await field.orphan([PAIR]);
    const gateway = await field.gateway();
    const filler = join(disk.path, "..", "filler");
    await writeFile(filler, Buffer.alloc(64 * 1024 * 1024)).catch(() => {});
    await stops(field, runId);
    await rm(filler);
    expect(await field.ended(runId)).toMatchObject({ exit: { reason: "manual-cancel" } });
    await gateway.kill("SIGTERM");
  });
});
