// The costs of single operations on a PostgreSQL server, from which docs/reference/sizing.md computes. many-hosts.mjs
// measures and prints them.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defaults, openSupervisor } from "../dist/index.js";
import { OPEN_RUN_STATES } from "../dist/model/run.js";
import { openPostgresStore } from "../dist/store/postgres/open.js";
import { atOnce } from "./measure.mjs";
import { eventOf, runOf } from "./samples.mjs";

/**
 * Measures CPU time, which does not depend on the machine's other load. `client`: a connection of its own. `leases`: number
 * of runs on record; `operations`: how often most operations are repeated. Returns a row for each operation.
 */
export async function measureDatabaseCosts({ server, client, leases, operations }) {
  const rows = [];
  const schema = "bench_costs";
  const store = await openPostgresStore({ url: server.url, schema, name: "bench" });
  await atOnce(leases, (n) => store.insertRun(runOf(`c${n}`, "owner"), 30_000));
  await store.renewLeases("owner", 30_000);
  await client.query(`vacuum ${schema}.runs`);
  await client.query("checkpoint");
  const renew = () => store.renewLeases("owner", 30_000);
  await cost("a lease, renewed for the first time after a checkpoint", leases, renew);
  await cost("a lease, renewed after that", 10 * leases, async () => {
    for (let n = 0; n < 10; n++) {
      await renew();
      // As autovacuum does in the ten seconds between two renewals.
      await client.query(`vacuum ${schema}.runs`);
    }
  });
  await cost("a note that a run writes output, with its event", operations, () =>
    atOnce(operations, (n) =>
      store.saveRun({ runId: `run_c${n}`, ownerInstanceId: "owner", epoch: 1 }, { to: "output", at: n }, [
        eventOf(`run_c${n}`),
      ]),
    ),
  );
  await cost("a look for events that finds ten", operations, () =>
    atOnce(operations, (n) => store.listEvents({ after: n % 100, limit: 10 })),
  );
  await client.query(`update ${schema}.run_events set state_id = 's' || seq % 100`);
  await client.query(`vacuum analyze ${schema}.run_events`);
  await cost("a look for one's own events, beside others'", operations, () =>
    atOnce(operations, () => store.listEvents({ stateId: "another", after: 0, limit: 10 })),
  );
  // As autovacuum does long before there are so many rows.
  await client.query(`analyze ${schema}.runs`);
  const elsewhere = { hostId: "elsewhere", bootId: "b", stateId: "another" };
  await cost(`a check for runs without an owner, beside ${leases} of another host`, operations, () =>
    atOnce(operations, () => store.listUnattendedRuns("somebody", elsewhere)),
  );
  await cost(`a check for silent hosts, among ${leases} runs`, 200, () =>
    atOnce(200, () => store.listRuns({ states: OPEN_RUN_STATES, silentForMs: defaults.hostLostMs })),
  );
  await cost("a heartbeat without leases", operations, () =>
    atOnce(operations, (n) => store.renewLeases(`none${n}`, 30_000)),
  );
  await store[Symbol.asyncDispose]();
  process.env["HOLDFAST_DATABASE_URL"] = server.url;
  const home = await mkdtemp(join(tmpdir(), "hf-"));
  const supervisor = await openSupervisor({ home });
  delete process.env["HOLDFAST_DATABASE_URL"];
  const runs = 200;
  await cost("a short run from its first record to its last", runs, async () => {
    for (let n = 0; n < runs; n++) await (await supervisor.spawn({ io: "pipe", argv: ["/bin/true"] })).wait();
  });
  await supervisor.close();
  await rm(home, { recursive: true, force: true });
  single(
    "a run, indexes included",
    (await sizeOf("holdfast.runs")) / (await countOf("holdfast.runs")),
    "bytes",
  );
  const events = await countOf(`${schema}.run_events`);
  single("an event, indexes included", (await sizeOf(`${schema}.run_events`)) / events, "bytes");
  return rows;

  /** Cost of one operation, from the server's cost of all. */
  async function cost(measured, count, work) {
    const before = { cpu: server.cpuMs(), ...(await counters()) };
    await work();
    const after = { cpu: server.cpuMs(), ...(await counters()) };
    const each = (name) => (after[name] - before[name]) / count;
    rows.push({
      measured,
      "server CPU, µs": (each("cpu") * 1_000).toFixed(0),
      "log, bytes": each("log").toFixed(0),
      "write transactions": each("commits").toFixed(2),
    });
  }

  async function counters() {
    const [found] = await ask(`select pg_current_wal_insert_lsn() - '0/0' as log,
      pg_snapshot_xmax(pg_current_snapshot())::text::bigint as commits`);
    return { log: Number(found.log), commits: Number(found.commits) };
  }

  async function countOf(table) {
    return Number((await ask(`select count(*) as rows from ${table}`))[0].rows);
  }

  async function sizeOf(table) {
    return Number((await ask(`select pg_total_relation_size('${table}') as size`))[0].size);
  }

  function single(measured, value, unit) {
    rows.push({ measured, PostgreSQL: `${value.toFixed(0)} ${unit}` });
  }

  async function ask(text) {
    return (await client.query(text)).rows;
  }
}
