import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { OPEN_RUN_STATES } from "../../../src/model/run.js";
import type { Store } from "../../../src/store/store.js";
import {
  type PostgresDatabase,
  type PostgresServer,
  startPostgresServer,
  whyNoPostgres,
} from "../../support/store/postgres-server.js";
import { LEASE_MS, newRun, newRunEvent } from "../../support/store/run-samples.js";
import { AT } from "../../support/store/session-samples.js";
import { endWithNotification, newTask, taskEvent } from "../../support/store/task-samples.js";
import { waitFor } from "../../support/wait-for.js";

/** Open runs of each of these hosts, with an event for each run. */
const HOSTS = 40;
const RUNS = 50;

describe.skipIf(whyNoPostgres !== null)("the queries that every gateway repeats", () => {
  let server: PostgresServer;
  let database: PostgresDatabase;
  let store: Store;
  beforeAll(async () => {
    server = await startPostgresServer();
    database = await server.createDatabase();
    await fill(database);
    // The server logs the plan of each statement, with the rows that it has read.
    for (const setting of [
      "session_preload_libraries = 'auto_explain'",
      "auto_explain.log_min_duration = 0",
      "auto_explain.log_analyze = on",
      "auto_explain.log_nested_statements = on",
      "auto_explain.log_format = 'json'",
    ])
      await database.query(`alter database ${database.name} set ${setting}`);
    store = await database.open();
  });
  afterAll(async () => {
    await store[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  /** The scans of `table` by the statements of `ask`, repeated until the server keeps a generic plan. */
  async function scansOf(table: string, ask: () => Promise<unknown>): Promise<readonly Scan[]> {
    const before = server.log().length;
    const TIMES = 8;
    for (let time = 0; time < TIMES; time += 1) await ask();
    const told = await waitFor("the plans are logged", () => {
      const found = plansIn(server.log().slice(before)).filter((plan) => scans(plan, table).length > 0);
      return found.length >= TIMES && found;
    });
    return told.flatMap((plan) => scans(plan, table));
  }

  test("runs of a gateway, and those without an owner, are found without reading others", async () => {
    const here = { hostId: "host-7", bootId: "boot", stateId: "state-7" };
    const asked = () => store.listUnattendedRuns("owner-7", here);
    expect(await asked()).toHaveLength(RUNS);
    for (const scan of await scansOf("runs", asked)) {
      expect(scan.index).toMatch(/^(runs_live|runs_open_of_state)$/);
      expect(scan.rows).toBeLessThanOrEqual(RUNS);
    }
    const ofState = { stateId: "state-7", instanceIds: ["owner-7"] };
    const open = () => store.listRuns({ states: OPEN_RUN_STATES, ofState });
    expect(await open()).toHaveLength(RUNS);
    for (const scan of await scansOf("runs", open)) {
      expect(scan).toMatchObject({ index: "runs_open_of_state" });
      expect(scan.rows).toBeLessThanOrEqual(RUNS);
    }
  });

  test("no plan is compiled, not even that of a statement which reads a whole sequence", async () => {
    const before = server.log().length;
    const run = newRun();
    await store.insertRun(run, LEASE_MS, [newRunEvent(run.runId)]);
    await store.listEvents({ after: 0, limit: 1 });
    const log = await waitFor("the plan of a sequence is logged", () => {
      const text = server.log().slice(before);
      return text.includes('"run_events_seq_seq"') && text;
    });
    expect(log).not.toContain('"JIT"');
  });

  test("events of a state directory are read without reading others", async () => {
    const asked = () => store.listEvents({ stateId: "state-7", after: 0, limit: 500 });
    expect(await asked()).toHaveLength(RUNS);
    for (const scan of await scansOf("run_events", asked)) {
      expect(scan).toMatchObject({ index: "run_events_of_state" });
      expect(scan.rows).toBeLessThanOrEqual(RUNS);
    }
  });

  test("the remote stops of one run are read without those of other runs of its target", async () => {
    const asked = () => store.listRemoteStopsOfRun("run_7");
    expect(await asked()).toHaveLength(1);
    for (const scan of await scansOf("commands", asked))
      expect(scan).toEqual({ index: "commands_of_run", rows: 1 });
  });

  test("tasks and messages with work to do are found without reading ended ones", async () => {
    for (const [index, ask] of [
      [/^tasks_open$/, () => store.listTasks({ open: true, limit: 500 })],
      [/^tasks_to_forget$/, () => store.listTasks({ cleanupBefore: AT, limit: 500 })],
      [
        /^tasks_(of_child|open)$/,
        () => store.listTasks({ childSessionId: "ses_none", open: true, limit: 1 }),
      ],
    ] as const)
      for (const scan of await scansOf("tasks", ask)) {
        expect(scan.index).toMatch(index);
        expect(scan.rows).toBeLessThanOrEqual(1);
      }
    const unread = () => store.listOutbox({ statuses: ["session_queued"], limit: 500 });
    for (const scan of await scansOf("task_outbox", unread))
      expect(scan).toEqual({ index: "task_outbox_queued", rows: 0 });
  });
});

interface Scan {
  readonly index: string | null;
  /** Rows read, including those that a filter removed. */
  readonly rows: number;
}

interface Plan {
  readonly "Node Type": string;
  readonly "Relation Name"?: string;
  readonly "Index Name"?: string;
  readonly "Actual Rows": number;
  readonly "Rows Removed by Filter"?: number;
  readonly Plans?: readonly Plan[];
}

function plansIn(log: string): readonly Plan[] {
  return [...log.matchAll(/plan:\n((?:\t.*\n)+)/g)].map(
    ([, json = ""]) => (JSON.parse(json) as { readonly Plan: Plan }).Plan,
  );
}

/** A bitmap scan of a table counts once, with the names of its indexes. */
function scans(plan: Plan, table: string): readonly Scan[] {
  const below = plan.Plans ?? [];
  if (plan["Relation Name"] !== table) return below.flatMap((each) => scans(each, table));
  const rows = plan["Actual Rows"] + (plan["Rows Removed by Filter"] ?? 0);
  const named = [plan, ...below.flatMap(whole)].flatMap(({ "Index Name": name }) => name ?? []);
  return named.length === 0 ? [{ index: null, rows }] : named.map((index) => ({ index, rows }));
}

function whole(plan: Plan): readonly Plan[] {
  return [plan, ...(plan.Plans ?? []).flatMap(whole)];
}

async function fill(database: PostgresDatabase): Promise<void> {
  {
    await using store = await database.open();
    await store.insertRun(newRun({ runId: "run_model" }), LEASE_MS);
    const { taskId } = newTask({ taskId: "task_model" });
    await store.insertTask(newTask({ taskId }), [taskEvent("created")]);
    await store.commitTask(taskId, 1, endWithNotification(taskId));
    for (const entry of await store.claimOutbox({ owner: "a", limit: 9, leaseMs: 9_000 }))
      await store.settleOutbox(entry, { status: "delivered", receipt: null, at: AT });
  }
  await database.query(`set search_path = holdfast;
    insert into runs select (jsonb_populate_record(runs, jsonb_build_object(
      'run_id', 'run_' || at, 'host_id', 'host-' || at % ${HOSTS}, 'state_id', 'state-' || at % ${HOSTS},
      'owner_instance_id', 'owner-' || at % ${HOSTS}
    ))).* from runs, generate_series(1, ${HOSTS * RUNS}) as at;
    insert into run_events (run_id, state_id, type, at, descendants, data)
    select run_id, state_id, 'attach', 0, 0, '{}' from runs;
    insert into commands (id, run_id, target, kind, actor, handed_over_by, created_at, survivors)
    select 'req_' || run_id, run_id, 'there', 'stop', 'operator', 'here', 0, '[]' from runs;
    insert into tasks select (jsonb_populate_record(tasks, jsonb_build_object(
      'task_id', 'task_' || at, 'key', 'run:' || at, 'created_at', created_at + at, 'cleanup_after', ${AT + 1} + at
    ))).* from tasks, generate_series(1, ${HOSTS * RUNS}) as at;
    insert into task_outbox select (jsonb_populate_record(task_outbox, jsonb_build_object(
      'entry_key', 'task-terminal:task_' || at, 'task_id', 'task_' || at, 'created_at', created_at + at
    ))).* from task_outbox, generate_series(1, ${HOSTS * RUNS}) as at;
    analyze`);
}
