import { type Kysely, type RawBuilder, sql } from "kysely";
import type { HiddenEvent, RunEvent } from "../../model/run-event.js";
import { NO_LIMITS, REAPED_USAGE, type RunRecord } from "../../model/run.js";
import type { SessionScope } from "../../model/session.js";
import { type RunRow, runTable, type Schema } from "../schema.js";
import { isColumnInScope, isSessionInScope } from "../sessions/queries.js";
import { equals, prefixUpperBound, type Reader, type SqlDialect } from "../sql/engine.js";
import { toRunEvent } from "./events.js";
import type {
  EventFilter,
  LocalScope,
  RunFilter,
  RunReads,
  ScopedEventReads,
  StateDirectoryScope,
} from "./contract.js";

/** Fields that rows of older releases do not have. */
const OLD_POLICY = { onOrphan: "terminate", callerBound: false } as const;

function toRunRecord(row: RunRow): RunRecord {
  const run = runTable.toRecord(row);
  // `limits` is NULL in rows of older releases.
  const limits = (run.limits as RunRecord["limits"] | null) ?? NO_LIMITS;
  const usage = run.usage === null ? null : { ...REAPED_USAGE, ...run.usage };
  return { ...run, policy: { ...OLD_POLICY, ...run.policy }, limits, usage };
}

const COLUMNS_WITHOUT_LABELS = `
  run_id lease_id session_key session_id backend_id agent_id kind io command command_hash cwd
  host_id boot_id pid_namespace time_namespace state_id anchor_path anchor_pid anchor_start_time anchor_unique_id
  root_pid root_start_time root_unique_id process_group_id boundary tier state
  origin_instance_id owner_instance_id lease_epoch lease_expires_at deadlines policy limits
  created_at started_at last_output_at updated_at ended_at
  exit_reason exit_actor exit_code exit_signal exit_source exit_detail exit_errno exit_limit
  residue residue_count usage emptiness service imported hidden_at`
  .trim()
  .split(/\s+/) as readonly Exclude<keyof RunRow, "labels">[];

/** A literal, not a parameter, so that the partial indexes of open runs are used. */
const notExited = sql<boolean>`state <> 'exited'`;

/** The subquery reads the clock once, not for every run. */
const leaseExpired = (dialect: SqlDialect, forMs: number): RawBuilder<boolean> =>
  sql<boolean>`lease_expires_at <= (select ${dialect.now()}) - ${forMs}`;

export function runQueries(reader: Reader): RunReads & ScopedEventReads {
  const { dialect } = reader;
  return {
    getRun: (runId) => reader.read((db) => getRun(db, runId), null),
    findRuns: (prefix, limit) => reader.read((db) => findRuns(db, prefix, limit), []),
    listRuns: (filter) => reader.read((db) => listRuns(db, dialect, filter), []),
    listUnattendedRuns: (owner, here) =>
      reader.read((db) => listUnattendedRuns(db, dialect, owner, here), []),
    listOwnedRunIds: (owner) => reader.read((db) => listOwnedRunIds(db, owner), []),
    countEndedRuns: (filter = {}) => reader.read((db) => countEndedRuns(db, filter), 0),
    async listEvents(filter) {
      const settled = await reader.lastSettledEvent();
      return reader.read((db) => listEvents(db, settled, filter), []);
    },
    async listScopedEvents(scope, filter) {
      const settled = await reader.lastSettledEvent();
      return reader.read((db) => listScopedEvents(db, dialect, settled, scope, filter), []);
    },
    eventsReach: () => reader.lastSettledEvent(),
  };
}

async function getRun(db: Kysely<Schema>, runId: string): Promise<RunRecord | null> {
  const row = await db.selectFrom("runs").selectAll().where("run_id", "=", runId).executeTakeFirst();
  return row === undefined ? null : toRunRecord(row);
}

async function findRuns(db: Kysely<Schema>, prefix: string, limit: number): Promise<readonly RunRecord[]> {
  const rows = await db
    .selectFrom("runs")
    .selectAll()
    .where("run_id", ">=", prefix)
    .where("run_id", "<", prefixUpperBound(prefix))
    .orderBy("run_id")
    .limit(limit)
    .execute();
  return rows.map(toRunRecord);
}

async function listRuns(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  filter: RunFilter,
): Promise<readonly RunRecord[]> {
  let query = db.selectFrom("runs").selectAll();
  // A literal, so that the partial index of ended runs is used.
  if (filter.endedBefore !== undefined)
    query = query
      .where(sql<boolean>`state = 'exited'`)
      .where("ended_at", "<", filter.endedBefore)
      .orderBy("ended_at");
  query = query.orderBy("created_at", "desc").orderBy("run_id", "desc");
  const given = {
    state: filter.states,
    owner_instance_id: filter.ownerInstanceId,
    host_id: filter.hostIds,
    run_id: filter.runIds,
    session_key: filter.sessionKey,
    session_id: filter.sessionId,
    agent_id: filter.agentId,
  };
  query = query.where(equals("runs", given));
  if (filter.states?.includes("exited") === false) query = query.where(notExited);
  if (filter.silentForMs !== undefined) query = query.where(leaseExpired(dialect, filter.silentForMs));
  if (filter.ofState !== undefined) query = query.where(inStateDirectory(filter.ofState));
  if (filter.notFrom !== undefined && filter.notFrom.length > 0)
    query = query.where("origin_instance_id", "not in", filter.notFrom);
  if (filter.hidden === false) query = query.where("hidden_at", "is", null);
  for (const [name, value] of Object.entries(filter.labels ?? {})) {
    // Not a JSON path, because a label's name may contain any character.
    query = query.where(
      sql<boolean>`exists (select 1 from ${dialect.jsonEntries("labels")} as label where label.key = ${name} and label.value = ${value})`,
    );
  }
  if (filter.seenBy !== undefined) query = query.where(isColumnInScope(dialect, "session_id", filter.seenBy));
  if (filter.after !== undefined) {
    const { createdAt, runId } = filter.after;
    query = query.where(sql<boolean>`(created_at, run_id) < (${createdAt}, ${runId})`);
  }
  if (filter.limit !== undefined) query = query.limit(filter.limit);
  if (filter.maxBytes !== undefined) {
    // The records are read by their ids afterwards, so that no large record is sorted or read and dropped.
    const sizes = await query
      .clearSelect()
      .select(["run_id", recordBytes.as("bytes")])
      .execute();
    const ids = sizes.slice(0, countWithin(sizes, filter.maxBytes)).map(({ run_id }) => run_id);
    if (ids.length === 0) return [];
    query = db.selectFrom("runs").selectAll().where("run_id", "in", ids);
    query = query.orderBy("created_at", "desc").orderBy("run_id", "desc");
  }
  if (filter.withoutLabels === true) {
    const rows = await query.clearSelect().select(COLUMNS_WITHOUT_LABELS).execute();
    return rows.map((row) => toRunRecord({ ...row, labels: "{}" }));
  }
  return (await query.execute()).map(toRunRecord);
}

/** The columns of a run that have no length limit. */
const recordBytes = sql<number>`octet_length(labels) + octet_length(command) + octet_length(cwd) + octet_length(residue)`;

/** How many records fit; at least one. */
function countWithin(sizes: readonly { readonly bytes: number }[], maxBytes: number): number {
  let total = 0;
  const over = sizes.findIndex(({ bytes }) => (total += bytes) > maxBytes);
  return over === -1 ? Math.max(1, sizes.length) : Math.max(1, over);
}

async function listUnattendedRuns(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  ownerInstanceId: string,
  { hostId, bootId, stateId }: LocalScope,
): Promise<readonly RunRecord[]> {
  const here =
    stateId === null ? sql<boolean>`true` : sql<boolean>`(state_id is null or state_id = ${stateId})`;
  const rows = await db
    .selectFrom("runs")
    .selectAll()
    .where(notExited)
    .where((row) =>
      row.or([
        row("owner_instance_id", "=", ownerInstanceId),
        ...(dialect.shared
          ? [row.and([leaseExpired(dialect, 0), row("host_id", "=", hostId), here])]
          : [leaseExpired(dialect, 0), row("boot_id", "<>", bootId)]),
      ]),
    )
    .execute();
  return rows.map(toRunRecord);
}

async function listOwnedRunIds(db: Kysely<Schema>, ownerInstanceId: string): Promise<readonly string[]> {
  const rows = await db
    .selectFrom("runs")
    .select("run_id")
    .where("owner_instance_id", "=", ownerInstanceId)
    .where(notExited)
    .execute();
  return rows.map(({ run_id }) => run_id);
}

async function countEndedRuns(
  db: Kysely<Schema>,
  { ofState: scope, notFrom = [] }: Pick<RunFilter, "ofState" | "notFrom">,
): Promise<number> {
  let query = db
    .selectFrom("runs")
    .select((of) => of.fn.countAll<number>().as("ended"))
    .where(sql<boolean>`state = 'exited'`);
  if (scope !== undefined) query = query.where(inStateDirectory(scope));
  if (notFrom.length > 0) query = query.where("origin_instance_id", "not in", notFrom);
  return (await query.executeTakeFirstOrThrow()).ended;
}

/** No events after `settled`: events with smaller numbers may still be committed. */
async function listEvents(
  db: Kysely<Schema>,
  settled: number | null,
  filter: EventFilter,
): Promise<readonly RunEvent[]> {
  return (await selectEvents(db, settled, filter).selectAll().execute()).map(toRunEvent);
}

async function listScopedEvents(
  db: Kysely<Schema>,
  dialect: SqlDialect,
  settled: number | null,
  scope: SessionScope,
  filter: EventFilter,
): Promise<readonly (RunEvent | HiddenEvent)[]> {
  const found = await listEvents(db, settled, filter);
  const runIds = [...new Set(found.map(({ runId }) => runId))];
  if (runIds.length === 0) return [];
  // One row per run, not per event: a run has many events, and its record may be large.
  const rows = await db
    .selectFrom("runs")
    .innerJoin("sessions", "sessions.id", "runs.session_id")
    .select("runs.run_id")
    .where("runs.run_id", "in", runIds)
    .where(isSessionInScope(dialect, scope))
    .execute();
  const seen = new Set(rows.map(({ run_id }) => run_id));
  return found.map((event) => {
    if (seen.has(event.runId)) return event;
    const { seq, runId, at } = event;
    return { type: "hidden", seq, runId, at };
  });
}

function selectEvents(db: Kysely<Schema>, settled: number | null, filter: EventFilter) {
  const { after, runId, stateId, hostIds, limit, newestFirst = false } = filter;
  let query = db
    .selectFrom("run_events")
    .where(equals("run_events", { run_id: runId, state_id: stateId }))
    .orderBy("seq", newestFirst ? "desc" : "asc");
  if (settled !== null) query = query.where("seq", "<=", settled);
  if (after !== undefined) query = query.where("seq", ">", after);
  if (hostIds !== undefined)
    query = query.where("run_id", "in", (of) =>
      of
        .selectFrom("runs")
        .select("runs.run_id")
        .where(equals("runs", { host_id: hostIds })),
    );
  return limit === undefined ? query : query.limit(limit);
}

function inStateDirectory({ stateId, instanceIds }: StateDirectoryScope): RawBuilder<boolean> {
  const started = equals("runs", { origin_instance_id: instanceIds });
  return sql<boolean>`(state_id = ${stateId} or (state_id is null and ${started}))`;
}
