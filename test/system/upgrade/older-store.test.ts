import { rename, rm } from "node:fs/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, test } from "vitest";
import { migrations } from "../../../src/store/sql/migrations.js";
import { RecoveryFixture, RunGate, TWO_PROCESSES } from "../../support/cli/recovery-fixture.js";

/** Rewrites the store as a version with only the first migrations would have written it. */
async function rewriteAsOf(newest: number, store: string): Promise<void> {
  const old = `${store}.old`;
  const db = new DatabaseSync(old);
  db.exec("create table holdfast_migrations (id integer primary key, name text, applied_at integer) strict");
  for (const { id, name, sql } of migrations.slice(0, newest)) {
    db.exec(sql);
    db.prepare("insert into holdfast_migrations (id, name, applied_at) values (?, ?, 0)").run(id, name);
  }
  const columns = (db.prepare("select name from pragma_table_info('runs')").all() as { name: string }[])
    .map(({ name }) => name)
    .join(", ");
  db.exec(`attach '${store}' as today; insert into runs (${columns}) select ${columns} from today.runs`);
  db.close();
  await Promise.all(["-wal", "-shm"].map((end) => rm(`${store}${end}`, { force: true })));
  await rename(old, store);
}

test.each([1, migrations.length - 1])(
  "live runs in a store of schema %i are attached again: output, stopping, exit code",
  async (newest) => {
    await using fixture = await RecoveryFixture.open();
    await using gate = await RunGate.create();
    const [going = "", stopped = ""] = await fixture.leaveOrphans([gate.waitScript(7)], [TWO_PROCESSES]);
    await rewriteAsOf(newest, fixture.store);
    const reading = await fixture.holdfast("runs", "list");
    expect(reading).toMatchObject({ code: 5, stderr: expect.stringContaining("older Holdfast") });

    const gateway = await fixture.gateway();
    expect(gateway.events.filter(({ type }) => type === "problem")).toEqual([]);
    expect(await fixture.record(going)).toMatchObject({ state: "running" });
    expect(await fixture.holdfast("logs", going)).toMatchObject({ code: 0, stdout: "up\n" });
    expect(await fixture.holdfast("runs", "cancel", stopped)).toMatchObject({ code: 0 });
    expect(await fixture.membersOf(stopped)).toEqual([]);
    await gate.release();
    expect(await fixture.waitForEnd(going)).toMatchObject({
      exit: { reason: "exit", code: 7 },
      emptiness: "proven",
    });
    expect(await fixture.waitForEnd(stopped)).toMatchObject({ exit: { reason: "manual-cancel" } });
    expect((await gateway.kill("SIGTERM")).code).toBe(0);
  },
);
