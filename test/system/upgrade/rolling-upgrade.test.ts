import { spawnSync } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { migrations, SCHEMA_VERSION } from "../../../src/store/sql/migrations.js";
import { BatchCli } from "../../support/cli/batch-cli.js";
import { repetitions } from "../../support/scale.js";
import { CliFixture, cliPath } from "../../support/cli/cli-fixture.js";
import { RecoveryFixture, RunGate } from "../../support/cli/recovery-fixture.js";
import { type ClusterProcess, GatewayCluster, startRun } from "../../support/gateway/gateway-cluster.js";
import { startHttpReceiver, webhookConfig } from "../../support/http-receiver.js";
import { startPostgresServer, whyNoPostgres } from "../../support/store/postgres-server.js";
import { removeStateDirectory } from "../../support/temporary-directory.js";
import type { ChangedBuild } from "../../support/changed-build.js";
import { buildNewerVersion } from "./newer-build.js";
import { waitFor } from "../../support/wait-for.js";

const LATER = 1_000;
/** Runs that are started at each step of an upgrade. */
const EACH = repetitions(1, 3);
const sql = `
alter table runs add column later_note text not null default 'unset';
create table later_things (id text primary key not null, run_id text) strict;
`;

test("every migration after 16 lets builds of the previous schema continue", () => {
  const later = migrations.filter(({ id }) => id > 16);
  for (const { id, minCompatible } of later) expect(minCompatible ?? id, `migration ${id}`).toBeLessThan(id);
});

describe("a store that a later build has migrated", () => {
  let later: ChangedBuild;
  beforeAll(async () => {
    later = await buildNewerVersion({ id: LATER, name: "later", sql, minCompatible: SCHEMA_VERSION });
  });
  afterAll(() => later[Symbol.asyncDispose]());

  const withLater = (env: NodeJS.ProcessEnv, ...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [later.main, ...args], {
      env,
      encoding: "utf8",
    });
    return { code: status, stdout, stderr };
  };

  test("SQLite: this build reads it, continues its runs, and keeps values that it does not know", async () => {
    await using fixture = await RecoveryFixture.open();
    await using gate = await RunGate.create();
    const [runId = ""] = await fixture.leaveOrphans([gate.waitScript(7)]);
    expect(withLater(fixture.env, "store", "migrate", "--check")).toMatchObject({
      code: 1,
      stdout: expect.stringContaining(
        `pending ${LATER} later: versions that know schema ${SCHEMA_VERSION} or later can still use the store`,
      ),
    });
    expect(withLater(fixture.env, "store", "migrate")).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`applied ${LATER} later`),
    });
    expect(withLater(fixture.env, "store", "migrate", "--check")).toMatchObject({ code: 0 });
    const note = (text: string) => {
      const db = new DatabaseSync(fixture.store);
      db.prepare("update runs set later_note = ? where run_id = ?").run(text, runId);
      db.close();
    };
    note("kept");
    await using cli = new BatchCli(fixture.env);
    for (const args of [["ps"], ["runs", "list"], ["runs", "show", runId], ["doctor"]])
      expect(await cli.holdfast(...args), args.join(" ")).toMatchObject({
        code: 0,
        stdout: expect.stringContaining(args[0] === "doctor" ? `schema ${LATER}` : runId.slice(0, 8)),
      });
    expect(await cli.holdfast("store", "migrate", "--check")).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`newer ${LATER} later: this version does not know it`),
    });
    const gateway = await fixture.gateway();
    await gate.release();
    expect(await fixture.waitForEnd(runId)).toMatchObject({ exit: { reason: "exit", code: 7 } });
    expect(await fixture.holdfast("run", "--", "true")).toMatchObject({ code: 0 });
    expect((await gateway.kill("SIGTERM")).code).toBe(0);
    const db = new DatabaseSync(fixture.store);
    const notes = db.prepare("select later_note from runs order by created_at").all();
    db.close();
    expect(notes).toEqual([{ later_note: "kept" }, { later_note: "unset" }]);
  });

  test("SQLite: a store that needs a later build is refused with both versions, and so is a copy from or to it", async () => {
    await using cliFixture = await CliFixture.open();
    await using other = await CliFixture.open();
    expect(await cliFixture.holdfast("run", "--", "true")).toMatchObject({ code: 0 });
    expect(withLater(cliFixture.env, "store", "migrate").code).toBe(0);
    const store = join(cliFixture.home, "store.sqlite");
    const copied = await cliFixture.holdfast(
      "store",
      "copy",
      "--from",
      store,
      "--to",
      join(other.home, "copy"),
    );
    expect(copied).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(
        `has schema ${LATER}, but this version knows only schema ${SCHEMA_VERSION}`,
      ),
    });
    expect(await other.holdfast("run", "--", "true")).toMatchObject({ code: 0 });
    const from = join(other.home, "store.sqlite");
    const onto = await other.holdfast("store", "copy", "--from", from, "--to", store);
    expect(onto).toMatchObject({ code: 1, stderr: expect.stringContaining(`has schema ${LATER}`) });
    const db = new DatabaseSync(store);
    db.exec(`update holdfast_migrations set min_compatible = ${SCHEMA_VERSION + 1} where id = ${LATER}`);
    db.close();
    for (const args of [
      ["ps"],
      ["run", "--", "true"],
      ["run", "--in-process", "--", "true"],
      ["gateway", "start"],
    ])
      expect(await cliFixture.holdfast(...args), args.join(" ")).toMatchObject({
        code: 125,
        stderr: expect.stringContaining(
          `(schema ${LATER} for builds of schema ${SCHEMA_VERSION + 1} or later, this one knows ${SCHEMA_VERSION})`,
        ),
      });
  });

  describe.skipIf(whyNoPostgres !== null)("PostgreSQL:", () => {
    test("with database.migrate = manual only store migrate migrates, and other writers are refused with that reason", async () => {
      await using server = await startPostgresServer();
      await using cliFixture = await CliFixture.open();
      const { url } = await server.createDatabase();
      const env = { HOLDFAST_DATABASE_URL: url, HOLDFAST_DATABASE_MIGRATE: "manual" };
      const holdfast = (...args: string[]) => cliFixture.startWith(env, ...args).finished;
      const refused = { code: 125, stderr: expect.stringContaining("holdfast store migrate") };
      expect(await holdfast("run", "--", "true")).toMatchObject(refused);
      expect(await holdfast("store", "migrate", "--check", "--json")).toMatchObject({
        code: 1,
        stdout: expect.stringContaining('"schema": null'),
      });
      expect(await holdfast("store", "migrate")).toMatchObject({ code: 0 });
      expect(await holdfast("run", "--", "true")).toMatchObject({ code: 0 });
      // The later build finds one migration pending, and leaves it, too.
      const beforeEnv = { ...cliFixture.env, ...env };
      expect(withLater(beforeEnv, "run", "--", "true")).toMatchObject({
        code: 125,
        stderr: expect.stringContaining(`lacks migration ${LATER} (later)`),
      });
      expect(withLater(beforeEnv, "gateway", "run", "--check").code).toBe(125);
    });

    test(
      "two gateways with live runs are upgraded one after the other: no run is lost, no notification is sent twice",
      { timeout: 120_000 },
      async () => {
        await using cluster = await GatewayCluster.open();
        const { url, received } = await startHttpReceiver();
        configure(url);
        const gateways = [await cluster.spawnGateway(), await cluster.spawnGateway()];
        const place = mkdtempSync(join(tmpdir(), "hf-gate-"));
        onTestFinished(() => removeStateDirectory(place));
        const origin = { channel: "user" };
        const runs: string[] = [];
        /** Runs that end when the gate is opened, with notifications. */
        const startSome = async (at: ClusterProcess): Promise<void> => {
          for (let count = 0; count < EACH; count += 1)
            runs.push(
              await startRun(at, `until [ -e ${place}/open ]; do sleep 0.05; done; exit 3`, { origin }),
            );
        };
        for (const gateway of gateways) await startSome(gateway);
        const old = (at: ClusterProcess, ...args: string[]) => {
          const env = { ...process.env, HOLDFAST_HOME: at.home };
          return spawnSync(process.execPath, [cliPath, ...args], { env, encoding: "utf8" });
        };

        const env = { ...process.env, HOLDFAST_HOME: gateways[0]?.home };
        expect(withLater(env, "store", "migrate")).toMatchObject({ code: 0 });
        await cluster.database.query("update holdfast.runs set later_note = run_id");

        // Both gateways of this build continue with the newer schema.
        for (const gateway of gateways) {
          await startSome(gateway);
          const ended = await startRun(gateway, "exit 4", { origin });
          runs.push(ended);
          await waitFor("it has ended", async () => {
            const run = await gateway.client.getRun({ params: { runId: ended } });
            return run.exit?.code === 4;
          });
          expect(old(gateway, "runs", "show", runs[0] ?? "")).toMatchObject({ status: 0 });
        }
        const former = gateways.slice();
        for (const [at, gateway] of former.entries()) {
          await gateway.kill(at === 0 ? "SIGTERM" : "SIGKILL");
          const next = await cluster.spawnGateway(gateway.home, [], later.main);
          gateways[at] = next;
          await startSome(next);
        }
        writeFileSync(join(place, "open"), "");
        const [first] = gateways;
        await waitFor("all notifications are delivered", async () => {
          const { tasks } = (await first?.client.listTasks({ query: { delivery: "pending" } })) ?? {};
          return tasks?.length === 0;
        });
        const records = await cluster.database.query(
          "select run_id, state, exit_code, exit_reason, later_note from holdfast.runs",
        );
        expect(records).toHaveLength(runs.length);
        for (const record of records) expect(record).toMatchObject({ state: "exited", exit_reason: "exit" });
        // A row that an old gateway updated keeps the column that it does not know.
        const kept = records.filter(({ run_id, later_note }) => run_id === later_note);
        expect(kept.map(({ run_id }) => String(run_id)).toSorted()).toEqual(
          runs.slice(0, 2 * EACH).toSorted(),
        );
        const tasks = await cluster.database.query("select task_id from holdfast.tasks");
        expect(tasks).toHaveLength(runs.length);
        const sent = received.map(({ headers }) => String(headers["webhook-id"]));
        expect(sent.toSorted()).toEqual(
          tasks.map(({ task_id }) => `task-terminal:${String(task_id)}`).toSorted(),
        );
      },
    );
  });
});

/** A channel `user` to this receiver, for every gateway that is started. */
function configure(url: string): void {
  const place = mkdtempSync(join(tmpdir(), "hf-config-"));
  onTestFinished(() => removeStateDirectory(place));
  const file = join(place, "config.toml");
  writeFileSync(file, webhookConfig(place, "user", url), { mode: 0o600 });
  vi.stubEnv("HOLDFAST_CONFIG", file);
}
