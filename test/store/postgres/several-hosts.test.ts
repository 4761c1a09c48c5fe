import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TLSSocket } from "node:tls";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { EventWatch } from "../../../src/store/postgres/listen-notify.js";
import { openPostgresStore, openPostgresStoreForReading } from "../../../src/store/postgres/open.js";
import { readServerInfo } from "../../../src/store/postgres/server-properties.js";
import { scaled } from "../../support/scale.js";
import { type ReplicatedServer, startReplicatedServer } from "../../support/store/postgres-replication.js";
import {
  type PostgresDatabase,
  type PostgresServer,
  startPostgresServer,
  storeUnusable,
  whyNoPostgres,
} from "../../support/store/postgres-server.js";
import { LEASE_MS, newRun, newRunEvent } from "../../support/store/run-samples.js";

const noOpenssl = spawnSync("openssl", ["version"]).status !== 0;

describe.skipIf(whyNoPostgres !== null)("a PostgreSQL store on several hosts", () => {
  let replicated: ReplicatedServer;
  let elsewhere: PostgresServer;
  let database: PostgresDatabase;
  beforeAll(async () => {
    [replicated, elsewhere] = await Promise.all([startReplicatedServer(), startPostgresServer()]);
  });
  afterAll(async () => {
    await replicated[Symbol.asyncDispose]();
    await elsewhere[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    database = await replicated.createDatabase();
  });

  const withHosts = (hosts: string, more = ""): string =>
    `postgres://postgres:hunter2@localhost/${database.name}?host=${hosts}${more}`;
  const at = {
    get primary() {
      return replicated.primary.directory;
    },
    get standBy() {
      return replicated.standBy.directory;
    },
  };

  test("writers and readers skip stand-bys and hosts that do not answer, wherever they are in the list", async () => {
    for (const hosts of [`${at.standBy},${at.primary}`, `/nowhere,${at.standBy},${at.primary}`]) {
      const url = withHosts(hosts);
      await using store = await database.open({ url });
      const { runId } = await store.insertRun(newRun(), LEASE_MS, [newRunEvent("r")]);
      await using reader =
        (await openPostgresStoreForReading({ url, name: "test" })) ?? expect.fail("no store");
      expect(await reader.getRun(runId)).toMatchObject({ runId });
      expect(await readServerInfo(url)).toMatchObject({ standby: false, writable: true });
    }
  });

  test("if only a stand-by answers, nothing can be written, and reading works only if the address allows it", async () => {
    await (await database.open())[Symbol.asyncDispose]();
    // The primary has waited for the stand-by to have it, not to show it.
    await expect
      .poll(() => replicated.standBy.query(database.name, "select 1 from holdfast.runs").catch(() => null))
      .not.toBeNull();
    const hosts = `/nowhere,${at.standBy}`;
    for (const more of ["", "&target_session_attrs=read-write", "&target_session_attrs=primary"]) {
      const refused = await storeUnusable(openPostgresStore({ url: withHosts(hosts, more), name: "test" }));
      expect(refused).toMatchObject({ code: "STORE_AWAY" });
      expect(refused.message).toContain(`${at.standBy}: accepts only reads`);
      expect(refused.message).toContain("/nowhere: connect ENOENT");
      expect(refused.message).not.toContain("hunter2");
    }
    const reading = (more: string) =>
      openPostgresStoreForReading({ url: withHosts(hosts, more), name: "test" });
    await using reader = (await reading("")) ?? expect.fail("no store");
    expect(await reader.listRuns({})).toEqual([]);
    expect(await readServerInfo(withHosts(hosts))).toMatchObject({ standby: true });
    expect((await storeUnusable(reading("&target_session_attrs=read-write"))).code).toBe("STORE_AWAY");
  });

  test("read-write also skips a server that is set to be read only; a wrong database name is not hidden", async () => {
    await elsewhere.query("postgres", `create database ${database.name}`);
    await elsewhere.query(
      "postgres",
      `alter database ${database.name} set default_transaction_read_only = on`,
    );
    const url = withHosts(`${elsewhere.directory},${at.primary}`, "&target_session_attrs=read-write");
    await using store = await database.open({ url });
    await store.insertRun(newRun(), LEASE_MS);
    expect(await database.query("select count(*) from holdfast.runs")).toEqual([{ count: "1" }]);
    const missing = url.replace(`/${database.name}?`, "/missing?");
    expect((await storeUnusable(openPostgresStore({ url: missing, name: "test" }))).message).toContain(
      "does not exist",
    );
  });

  test("a host that does not answer connections is skipped after its share of the time", async () => {
    await using store = await database.open();
    await store.insertRun(newRun(), LEASE_MS);
    elsewhere.pause();
    const began = performance.now();
    const url = withHosts(`${elsewhere.directory},${at.primary}`, "&connect_timeout=1");
    await using reader =
      (await openPostgresStoreForReading({ url, name: "test" })) ?? expect.fail("no store");
    expect(await reader.listRuns({})).toHaveLength(1);
    expect(performance.now() - began).toBeLessThan(scaled(4_000));
    elsewhere.resume();
  });

  test.skipIf(noOpenssl)("with TLS each host must have a certificate that names it", async () => {
    const directory = mkdtempSync(join(tmpdir(), "hf-tls-"));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const [key, cert] = [join(directory, "key.pem"), join(directory, "cert.pem")];
    const made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"];
    spawnSync("openssl", [...made, "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert]);
    // The same server at two names, of which the certificate has one.
    const front = createServer((socket) => {
      const upstream = connect(join(at.primary, ".s.PGSQL.5432"));
      for (const each of [socket, upstream]) each.on("error", () => {});
      socket.once("data", () => {
        socket.write("S");
        const options = { isServer: true, key: readFileSync(key), cert: readFileSync(cert) };
        const secure = new TLSSocket(socket, options);
        secure.on("error", () => upstream.destroy());
        secure.pipe(upstream).pipe(secure);
      });
    }).listen(0, "127.0.0.1");
    onTestFinished(() => void front.close());
    await once(front, "listening");
    const { port } = front.address() as AddressInfo;
    const url = (hosts: string) =>
      `postgres://postgres@${hosts}/${database.name}?sslmode=verify-full&sslrootcert=${cert}`;
    await using store = await database.open({ url: url(`127.0.0.1:${port},localhost:${port}`) });
    await store.insertRun(newRun(), LEASE_MS);
    const refused = await storeUnusable(openPostgresStore({ url: url(`127.0.0.1:${port}`), name: "test" }));
    expect(refused.message).toContain("127.0.0.1 is not in the cert");
  });

  // Last: there is one fail-over.
  test("when the primary is killed and the stand-by promoted, an open store and its listeners continue there", async () => {
    await using store = await database.open();
    const { generation } = store;
    const before = await store.insertRun(newRun(), LEASE_MS, [newRunEvent("r")]);
    let hints = 0;
    await using _watch = new EventWatch(
      { url: database.url, name: "test" },
      (hint) => (hints += hint === null ? 0 : 1),
      3_600_000,
    );
    await replicated.primary.kill();
    expect(await storeUnusable(store.insertRun(newRun(), LEASE_MS))).toMatchObject({ code: "STORE_AWAY" });
    await replicated.failOver();
    const after = await store.insertRun(newRun(), LEASE_MS, [newRunEvent("r")]);
    expect(await store.listRuns({})).toHaveLength(2);
    expect(await store.getRun(before.runId)).not.toBeNull();
    expect(store.generation).toBeGreaterThan(generation);
    await expect
      .poll(
        async () => {
          await store.appendEvents([newRunEvent(after.runId)]);
          return hints;
        },
        { timeout: 15_000 },
      )
      .toBeGreaterThan(0);
    await using again = await database.open();
    expect(await again.listRuns({})).toHaveLength(2);
  });
});
