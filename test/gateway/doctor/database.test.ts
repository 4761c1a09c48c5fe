import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  checkConnections,
  checkDurability,
  checkReplication,
  checkServer,
} from "../../../src/gateway/doctor/database.js";
import type { ServerInfo } from "../../../src/store/postgres/server-properties.js";
import {
  startPostgresServer,
  whyNoPostgres,
  type PostgresServer,
} from "../../support/store/postgres-server.js";
import { BatchCli } from "../../support/cli/batch-cli.js";
import { CliFixture } from "../../support/cli/cli-fixture.js";

const good: ServerInfo = {
  label: "postgres database x at db",
  version: "16.1",
  latencyMs: 0.4,
  clockAheadMs: 0.2,
  standby: false,
  encoding: "UTF8",
  writable: true,
  fsync: true,
  fullPageWrites: true,
  synchronousCommit: "on",
  synchronousStandbys: "ANY 1 (a, b)",
  connections: { most: 97, used: 20, ours: 18 },
};

const judged = (change: Partial<ServerInfo>) => {
  const facts = { ...good, ...change };
  return [checkServer(facts), checkDurability(facts), checkReplication(facts), checkConnections(facts, 9)];
};

test("a good server passes all checks", () => {
  expect(judged({}).map(({ state }) => state)).toEqual(["ok", "ok", "ok", "ok"]);
  expect(judged({})[3]?.detail).toBe(
    "20 of 97 are used, 18 by Holdfast; a gateway uses up to 9: room for 8 more",
  );
});

test.each([
  ["database", "bad", "a read-only stand-by", { standby: true }],
  ["database", "bad", "encoding LATIN1", { encoding: "LATIN1" }],
  ["database", "bad", "may not write there", { writable: false }],
  ["database", "warn", "a clock 61000 ms behind", { clockAheadMs: -61_000 }],
  ["database", "warn", "answers in 250.0 ms", { latencyMs: 250 }],
  ["database disk", "warn", "fsync is off", { fsync: false }],
  ["database disk", "warn", "full_page_writes is off", { fullPageWrites: false }],
  ["replication", "warn", "synchronous replication is off", { synchronousStandbys: "" }],
  ["replication", "warn", "do not wait for ANY 1", { synchronousCommit: "local" }],
  ["connections", "warn", "room for 0 more", { connections: { most: 97, used: 90, ours: 0 } }],
] as const)("%s: %s, %s", (name, state, text, change) => {
  const found = judged(change).filter((each) => each.state !== "ok");
  expect(found).toEqual([
    { name, state, detail: expect.stringContaining(text), remedy: expect.stringMatching(/.+/) },
  ]);
});

describe.skipIf(whyNoPostgres !== null)("on a real server", { timeout: 120_000 }, () => {
  let running: PostgresServer;
  let cliFixture: CliFixture;
  let batchCli: BatchCli;
  beforeAll(async () => {
    running = await startPostgresServer();
    cliFixture = await CliFixture.open();
    batchCli = new BatchCli(cliFixture.env);
  });
  afterAll(async () => {
    await batchCli[Symbol.asyncDispose]();
    await cliFixture[Symbol.asyncDispose]();
    await running[Symbol.asyncDispose]();
  });

  test("doctor describes the server, creates nothing there and does not print the password", async () => {
    const database = await running.createDatabase();
    const url = database.url.replace("postgres@", "postgres:hunter2@");
    const ask = (address: string) =>
      batchCli.holdfastWith({ HOLDFAST_DATABASE_URL: address }, "doctor", "--json");
    const { stdout, stderr } = await ask(url);
    const { checks } = JSON.parse(stdout) as { checks: { name: string; state: string; detail: string }[] };
    const found = Object.fromEntries(checks.map(({ name, state, detail }) => [name, `${state} ${detail}`]));
    expect(found["database"]).toMatch(
      /^(ok|warn) postgres database db\d+ at .*: PostgreSQL \d+.*, answers in /,
    );
    // The settings of the test server.
    expect(found["database disk"]).toMatch(/^warn fsync is off/);
    expect(found["replication"]).toMatch(/^warn synchronous replication is off/);
    expect(found["connections"]).toMatch(/^ok \d+ of 97 are used, 0 by Holdfast; .* room for \d+ more$/);
    expect(stdout + stderr).not.toContain("hunter2");
    expect(await database.query("select 1 from pg_namespace where nspname = 'holdfast'")).toEqual([]);
    const away = await ask(url.replace(running.directory, "/nowhere"));
    expect(away.code).toBe(1);
    expect(away.stdout).toContain("cannot be reached");
    expect(away.stdout + away.stderr).not.toContain("hunter2");
  });

  test("the roles of docs/reference/postgres.md suffice: the owner migrates, gateways run, doctor finds nothing, readers read", async () => {
    const [, grants = ""] =
      /## Roles[^]*?```sql\n([^]*?)```/.exec(await readFile("docs/reference/postgres.md", "utf8")) ?? [];
    const database = await running.createDatabase();
    await database.query(`revoke create on schema public from public; ${grants}`);
    const as = (role: string, ...args: string[]) => {
      const url = database.url.replace("postgres@", `${role}@`);
      const env = { HOLDFAST_DATABASE_URL: url, HOLDFAST_DATABASE_MIGRATE: "manual" };
      return batchCli.holdfastWith(env, ...args);
    };
    expect(await as("holdfast_owner", "store", "migrate")).toMatchObject({ code: 0, stderr: "" });
    expect(await as("holdfast_gateway", "run", "--", "sh", "-c", "exit 3")).toMatchObject({
      code: 3,
      stderr: "",
    });
    const asked = await as("holdfast_gateway", "doctor");
    expect(asked.stdout).not.toMatch(/^bad/m);
    expect(asked.stdout).toMatch(/^(ok|warn) +database /m);
    expect(asked.stdout).toMatch(/^ok +store +schema \d+, 0 open and 1 ended runs/m);
    expect(asked.stdout).toMatch(/^ok +connections +the maximum is 97; the number in use is not known/m);
    const shown = await as("holdfast_reader", "runs", "list", "--all", "--json");
    expect(JSON.parse(shown.stdout)).toHaveLength(1);
    expect((await as("holdfast_reader", "events", "--json")).code).toBe(0);
    expect((await as("holdfast_reader", "doctor")).stdout).toMatch(/^bad +database .*may not write there/m);
    // docs/concepts/peers.md: a reader that may not read the keys of gateways.
    await database.query(`revoke select on holdfast.gateways from holdfast_reader`);
    const [columns] = await database.query(
      `select string_agg(column_name, ', ') as names from information_schema.columns
        where table_schema = 'holdfast' and table_name = 'gateways' and column_name <> 'peer_key'`,
    );
    await database.query(
      `grant select (${String(columns?.["names"])}) on holdfast.gateways to holdfast_reader`,
    );
    expect(await as("holdfast_reader", "gateways", "--json")).toMatchObject({ code: 0, stderr: "" });
    await database.query("grant pg_read_all_stats to holdfast_gateway");
    expect((await as("holdfast_gateway", "doctor")).stdout).toMatch(/^ok +connections +\d+ of 97 are used/m);
  });

  test("doctor reports a database on which no gateway would start", async () => {
    const database = await running.createDatabase();
    const ask = async (url: string): Promise<string> =>
      (await batchCli.holdfastWith({ HOLDFAST_DATABASE_URL: url }, "doctor")).stdout;
    await database.query("create role stranger login");
    const stranger = database.url.replace("postgres@", "stranger@");
    const found = await ask(stranger);
    expect(found).toMatch(/^bad +database .*may not write there/m);
    expect(found).toMatch(/^ok +connections +the maximum is 97; the number in use is not known/m);
    expect(found).toMatch(/^ok +clock .*; leases use the database's clock, deadlines the monotonic one$/m);
    await (await database.open())[Symbol.asyncDispose]();
    expect(await ask(stranger)).toMatch(/^bad +database .*may not write there/m);
    await database.query("grant usage on schema holdfast to stranger");
    expect(await ask(stranger)).toMatch(/^bad +database .*may not write there/m);
    expect(await ask(database.url)).not.toMatch(/^bad/m);
    await database.query(
      "create database latin encoding LATIN1 template template0 lc_collate 'C' lc_ctype 'C'",
    );
    expect(await ask(database.url.replace(database.name, "latin"))).toMatch(/^bad +database .*LATIN1/m);
  });
});
