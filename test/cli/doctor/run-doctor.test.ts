import { chmod, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { mountSmallDisk, whyNoMounts } from "../../support/small-disk.js";
import { RecoveryFixture, TWO_PROCESSES } from "../../support/cli/recovery-fixture.js";

interface Diagnosis {
  readonly ok: boolean;
  readonly checks: readonly {
    readonly name: string;
    readonly state: "ok" | "warn" | "bad";
    readonly detail: string;
    readonly remedy: string | null;
  }[];
}

type Check = Diagnosis["checks"][number] & { readonly code: number | null };

async function check(fixture: RecoveryFixture, name: string, env = ""): Promise<Check> {
  return (await diagnose(fixture, env))(name);
}

async function diagnose(fixture: RecoveryFixture, env = ""): Promise<(name: string) => Check> {
  const { code, stdout, stderr } = await fixture.shell(`${env} holdfast doctor --json`);
  expect(stderr).toBe("");
  const { ok, checks } = JSON.parse(stdout) as Diagnosis;
  expect(ok).toBe(checks.every(({ state }) => state !== "bad"));
  expect(code).toBe(ok ? 0 : 1);
  return (name) => {
    const found = checks.find((each) => each.name === name);
    if (found === undefined) throw new Error(`there is no check ${name}`);
    return { ...found, code };
  };
}

describe.concurrent("doctor", () => {
  test("without a state directory finds nothing wrong and creates nothing", async () => {
    await using fixture = await RecoveryFixture.open();
    const none = join(fixture.home, "none");
    const { code, stdout, stderr } = await fixture.shell(`HOLDFAST_HOME='${none}' holdfast doctor`);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toContain(`ok    state directory  ${none} does not exist yet`);
    expect(stdout).toMatch(/^ok {4}anchor /m);
    expect(stdout).toMatch(/^ok {4}tier +runs started here get (cgroup|subreaper)\+launcher\+/m);
    expect(existsSync(none)).toBe(false);
  });

  test("reports the gateway and its runs, and runs without an owner; read-only", async () => {
    await using fixture = await RecoveryFixture.open();
    const [runId = ""] = await fixture.leaveOrphans([TWO_PROCESSES]);
    const gateway = await fixture.gateway();
    const under = await diagnose(fixture);
    expect(under("runs")).toMatchObject({
      state: "ok",
      detail: "1 open, 1 with an owner; 3 live processes",
    });
    expect(under("gateway").detail).toMatch(/^in_\w+ is running$/);
    await gateway.kill();
    const copies = ["store.sqlite", "store.sqlite-wal", "gateway-id"].map((name) => join(fixture.home, name));
    const before = await Promise.all(copies.map((path) => readFile(path)));
    const without = await diagnose(fixture);
    expect(without("runs")).toMatchObject({
      state: "warn",
      detail: "1 open, 0 with an owner, 1 without one; 3 live processes",
      remedy: expect.stringContaining("holdfast gateway run"),
    });
    expect(without("gateway").detail).toMatch(/^in_\w+ is not running$/);
    expect(await Promise.all(copies.map((path) => readFile(path)))).toEqual(before);
    expect(await fixture.membersOf(runId)).toHaveLength(3);
    await fixture.holdfast("runs", "cancel", runId, "--kill");
  });

  test("reports a store that cannot be used, and the remedy", async () => {
    await using fixture = await RecoveryFixture.open();
    await fixture.holdfast("run", "--", "true");
    fixture.sql("pragma wal_checkpoint(truncate)");
    const bytes = await readFile(fixture.store);
    const spoilt: readonly (readonly [string, () => unknown, string, RegExp | null])[] = [
      [
        "cut off",
        () => truncate(fixture.store, 5_000),
        "damaged",
        /move store\.sqlite, .*-wal and .*-shm away together/,
      ],
      ["garbage", () => writeFile(fixture.store, "x".repeat(9_000)), "damaged", /docs\/guides\/repair\.md/],
      [
        "damaged in its last page, which still opens",
        () => writeFile(fixture.store, Buffer.from(bytes).fill(0xff, bytes.length - 4_096)),
        "damaged",
        /docs\/guides\/repair\.md/,
      ],
      [
        "of a newer version",
        () => fixture.sql("insert into holdfast_migrations (id, name, applied_at) values (9999, 'x', 0)"),
        "newer Holdfast",
        null,
      ],
      ["another program's", () => fixture.sql("drop table holdfast_migrations"), "some other program", null],
    ];
    for (const [what, spoil, word, remedy] of spoilt) {
      for (const rest of ["-wal", "-shm"]) await rm(`${fixture.store}${rest}`, { force: true });
      await writeFile(fixture.store, bytes);
      await spoil();
      const found = await check(fixture, "store");
      expect(found, what).toMatchObject({ state: "bad", code: 1, detail: expect.stringContaining(word) });
      if (remedy === null) expect(found.remedy, what).toBeNull();
      else expect(found.remedy, what).toMatch(remedy);
    }
  });

  test("warns of a directory that other users can read, a clock that was set back, and a run without a record", async () => {
    await using fixture = await RecoveryFixture.open();
    await fixture.holdfast("run", "--", "true");
    const [runId = ""] = await fixture.leaveOrphans([TWO_PROCESSES]);
    await chmod(fixture.home, 0o755);
    fixture.sql(`update runs set created_at = created_at + 3600000 where run_id = '${runId}'`);
    const found = await diagnose(fixture);
    expect(found("state directory")).toMatchObject({
      state: "warn",
      remedy: `chmod 700 '${fixture.home}'`,
    });
    expect(found("clock")).toMatchObject({
      state: "warn",
      detail: expect.stringContaining("set back"),
    });
    await fixture.holdfast("runs", "cancel", runId);
    expect(await check(fixture, "instances")).toMatchObject({ state: "ok" });
    fixture.sql(`delete from runs where run_id = '${runId}'`);
    expect(await check(fixture, "instances")).toMatchObject({
      state: "warn",
      detail: expect.stringContaining(`1 run directories without a record: ${runId}`),
    });
  });

  test("reports an invalid config file, a missing anchor and low limits", async () => {
    await using fixture = await RecoveryFixture.open();
    const config = join(fixture.home, "config.toml");
    await writeFile(config, "x = [");
    const [wrong, anchor, limits] = await Promise.all([
      check(fixture, "config", `HOLDFAST_CONFIG='${config}'`),
      check(fixture, "anchor", "HOLDFAST_ANCHOR=/nowhere/anchor"),
      check(fixture, "limits", "ulimit -n 900;"),
    ]);
    expect(wrong).toMatchObject({ state: "bad", remedy: `correct ${config}` });
    expect(anchor).toMatchObject({ state: "bad", detail: expect.stringContaining("/nowhere/anchor") });
    expect(limits).toMatchObject({ state: "warn", remedy: expect.stringContaining("ulimit -n") });
  });

  test("reports which limits a run can have, and why not", async () => {
    await using fixture = await RecoveryFixture.open();
    const [here, without] = await Promise.all([
      check(fixture, "run limits"),
      check(fixture, "run limits", "HOLDFAST_ANCHOR_WEAKEN=controllers"),
    ]);
    if (here.state === "ok") {
      for (const controller of ["memory", "pids", "cpu"])
        expect(here.detail).toMatch(new RegExp(`\\b${controller}: by cgroup v[12] in /`));
    } else expect(here.detail).toMatch(/possible/);
    expect(without).toMatchObject({
      state: "warn",
      detail: expect.stringMatching(/not possible|none is possible/),
    });
    expect(without.remedy).toContain("systemd-run --user --scope -p Delegate=yes");
  });

  test("warns of a nearly full disk, and reads a read-only one", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("16m");
    await using fixture = await RecoveryFixture.open(disk.path);
    await fixture.holdfast("run", "--", "true");
    expect(await check(fixture, "state directory")).toMatchObject({
      state: "warn",
      remedy: expect.stringContaining("space"),
    });
    expect(await check(fixture, "store", `HOLDFAST_HOME='${disk.readOnlyPath}'`)).toMatchObject({
      state: "ok",
    });
  });
});
