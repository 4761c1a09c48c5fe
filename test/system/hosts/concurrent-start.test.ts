import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { gatewayLogPath } from "../../../src/gateway/log.js";
import { DDL_PREAMBLE, translateDdl } from "../../../src/store/postgres/migrate.js";
import { migrations } from "../../../src/store/sql/migrations.js";
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import { repetitions } from "../../support/scale.js";
import {
  type PostgresDatabase,
  type PostgresServer,
  startPostgresServer,
  whyNoPostgres,
} from "../../support/store/postgres-server.js";

const GATEWAYS = repetitions(3, 10);
const ROUNDS = repetitions(1, 10);

/** Everything in a schema except the time of its creation. */
async function schemaOf(database: PostgresDatabase): Promise<unknown> {
  const of = (text: string) => database.query(`${text} order by 1, 2`);
  return {
    columns: await of(
      "select table_name, column_name, data_type, is_nullable, column_default from information_schema.columns where table_schema = 'holdfast'",
    ),
    indexes: await of("select indexname, indexdef from pg_indexes where schemaname = 'holdfast'"),
    triggers: await of(
      "select event_object_table, trigger_name, action_statement from information_schema.triggers where trigger_schema = 'holdfast'",
    ),
    migrations: await of("select id, name from holdfast.holdfast_migrations"),
  };
}

/** The schema of the first version. */
async function makeFirstSchema(database: PostgresDatabase): Promise<void> {
  const [first] = migrations;
  if (first === undefined) throw new Error("there are no migrations");
  await database.query(`create schema holdfast; set search_path = holdfast;
    create table holdfast_migrations (id bigint primary key, name text not null, applied_at bigint not null);
    ${DDL_PREAMBLE}; ${translateDdl(first.sql)};
    alter table runs set (fillfactor = 50);
    insert into holdfast_migrations values (${first.id}, '${first.name}', 0)`);
}

/** Starts gateways of as many state directories at the same time. Each then runs a command, and none logs a problem. */
async function startAtOnce(database: PostgresDatabase): Promise<void> {
  const env = { HOLDFAST_DATABASE_URL: database.url };
  await using fixtures = await BackgroundGateways.open();
  const gateways = await Promise.all(fixtures.all.map((fixture) => fixture.gateway(env)));
  await Promise.all(
    fixtures.all.map(async (fixture) => {
      const { exec } = await fixture.client();
      const { run, output } = await exec({ body: { argv: ["sh", "-c", "echo served; exit 3"] } });
      expect(run).toMatchObject({ state: "exited", exit: { reason: "exit", code: 3 } });
      expect(output[0]?.text).toBe("served\n");
      const log = (await readFile(gatewayLogPath(fixture.home), "utf8")).trim().split("\n");
      // Above level 30 (info) are warnings and errors.
      expect(log.filter((line) => (JSON.parse(line) as { level: number }).level > 30)).toEqual([]);
    }),
  );
  expect(await database.query("select count(distinct owner_instance_id) from holdfast.runs")).toEqual([
    { count: String(GATEWAYS) },
  ]);
  const left = await Promise.all(gateways.map((gateway) => gateway.kill("SIGTERM")));
  expect(left.map(({ code, stderr }) => [code, stderr])).toEqual(left.map(() => [0, ""]));
}

class BackgroundGateways implements AsyncDisposable {
  readonly all: readonly BackgroundGateway[];

  private constructor(all: readonly BackgroundGateway[]) {
    this.all = all;
  }

  static async open(): Promise<BackgroundGateways> {
    return new BackgroundGateways(
      await Promise.all(Array.from({ length: GATEWAYS }, () => BackgroundGateway.open())),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.all.map((fixture) => fixture[Symbol.asyncDispose]()));
  }
}

describe.skipIf(whyNoPostgres !== null)("gateways that start at once", { timeout: 120_000 * ROUNDS }, () => {
  let server: PostgresServer;
  let alone: unknown;
  beforeAll(async () => {
    server = await startPostgresServer();
    const database = await server.createDatabase();
    await (await database.open())[Symbol.asyncDispose]();
    alone = await schemaOf(database);
  });
  afterAll(() => server[Symbol.asyncDispose]());

  test("on an empty database make one schema, and all serve", async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const database = await server.createDatabase();
      await startAtOnce(database);
      expect(await schemaOf(database)).toEqual(alone);
    }
    expect(server.log()).not.toMatch(/ERROR|FATAL|PANIC/);
  });

  test("on a database of the first schema bring it up to date once", async () => {
    const database = await server.createDatabase();
    await makeFirstSchema(database);
    await startAtOnce(database);
    expect(await schemaOf(database)).toEqual(alone);
    expect(server.log()).not.toMatch(/ERROR|FATAL|PANIC/);
  });
});
