import { type Compilable, type Kysely, type RawBuilder, sql } from "kysely";
import { NO_LIMITS, REAPED_USAGE, type RunRecord } from "../../model/run.js";
import { type RunRow, runTable, type Schema } from "../schema.js";
import { isColumnInScope } from "../sessions/queries.js";
import { equals, prefixUpperBound, type Reader, type SqlDialect } from "../sql/engine.js";
import type { Statements } from "../sql/statement-cache.js";
import type { LocalScope, RunFilter, RunReads, ScopedEventReads, StateDirectoryScope } from "./contract.js";
import { listEvents, listScopedEvents } from "./event-queries.js";

/** Fields that rows of older releases do not have. */
const OLD_POLICY = { onOrphan: "terminate", callerBound: false } as const;

export function toRunRecord(row: RunRow): RunRecord {
  const run = runTable.toRecord(row);
  // `limits` is NULL in rows of older releases.
  const limits = (run.limits as RunRecord["limits"] | null) ?? NO_LIMITS;
  const usage = run.usage === null ? null : { ...REAPED_USAGE, ...run.usage };
  // Not a copy: lists of thousands of records are read.
  return Object.assign(run, { policy: { ...OLD_POLICY, ...run.policy }, limits, usage });
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
    getRun: (runId) => reader.read((db) => getRun(db, reader.statements, runId), null),
    findRuns: (prefix, limit) => reader.read((db) => findRuns(db, prefix, limit), []),
    listRuns: (filter) => reader.read((db) => listRuns(db, dialect, reader.statements, filter), []),
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

async function getRun(db: Kysely<Schema>, statements: Statements, runId: string): Promise<RunRecord | null> {
  const [row] = (await db.executeQuery(selectRun(db, statements, runId).compile())).rows;
  return row === undefined ? null : toRunRecord(row);
}

export function selectRun(db: Kysely<Schema>, statements: Statements, runId: string): Compilable<RunRow> {
  return statements.bind("a run", { runId }, (given) =>
    db.selectFrom("runs").select(runTable.columns).where("run_id", "=", given.runId),
  );
}

async function findRuns(db: Kysely<Schema>, prefix: string, limit: number): Promise<readonly RunRecord[]> {
  const rows = await db
    .selectFrom("runs")
    .select(runTable.columns)
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
  statements: Statements,
  filter: RunFilter,
): Promise<readonly RunRecord[]> {
  const list = <Row>(what: string, select: (limit: Limit) => Compilable<Row>): Promise<readonly Row[]> =>
    readList(db, statements, filter, what, select);
  const matching = (limit: Limit) => matchingRuns(db, dialect, filter, limit);
  if (filter.maxBytes !== undefined) {
    const sizes = await list("sizes of runs", (limit) =>
      matching(limit).select(["run_id", recordBytes.as("bytes")]),
    );
    // The records are read by their ids afterwards, so that no large record is sorted or read and dropped.
    const ids = sizes.slice(0, countWithin(sizes, filter.maxBytes)).map(({ run_id }) => run_id);
    if (ids.length === 0) return [];
    const query = db.selectFrom("runs").select(runTable.columns).where("run_id", "in", ids);
    return (await query.orderBy("created_at", "desc").orderBy("run_id", "desc").execute()).map(toRunRecord);
  }
  if (filter.withoutLabels === true) {
    const rows = await list("runs without labels", (limit) => matching(limit).select(COLUMNS_WITHOUT_LABELS));
    return rows.map((row) => toRunRecord({ ...row, labels: "{}" }));
  }
  return (await list("runs", (limit) => matching(limit).select(runTable.columns))).map(toRunRecord);
}

type Limit = number | RawBuilder<number> | undefined;

/** The parts of a filter that usual lists have. */
const USUAL: ReadonlySet<string> = new Set([
  "states",
  "hidden",
  "limit",
  "maxBytes",
  "withoutLabels",
] satisfies readonly (keyof RunFilter)[]);

/** The rows of a list. The statement of a usual list, which differs only in its limit, is built once. */
async function readList<Row>(
  db: Kysely<Schema>,
  statements: Statements,
  filter: RunFilter,
  what: string,
  select: (limit: Limit) => Compilable<Row>,
): Promise<readonly Row[]> {
  const { states, hidden, limit } = filter;
  const usual = Object.entries(filter).every(([name, value]) => USUAL.has(name) || value === undefined);
  const shape = `${what}: ${states?.join(" ") ?? "all"} ${hidden === false ? "visible" : "also hidden"}`;
  const query = !usual
    ? select(limit)
    : limit === undefined
      ? statements.bind(shape, {}, () => select(undefined))
      : statements.bind(`${shape}, limited`, { limit }, (given) => select(given.limit));
  return (await db.executeQuery(query.compile())).rows;
}

function matchingRuns(db: Kysely<Schema>, dialect: SqlDialect, filter: RunFilter, limit: Limit) {
  let query = db.selectFrom("runs");
  // A literal, so that the partial index of ended runs is used.
  if (filter.endedBefore !== undefined)
    query = query
      .where(sql<boolean>`state = 'exited'`)
      .where("ended_at", "<", filter.endedBefore)
      .orderBy("ended_at");
  const onlyOpen = filter.states?.includes("exited") === false;
  // By the index of all runs in this order, SQLite would read every ended run to find the few open ones.
  query = query.orderBy(onlyOpen ? sql`+created_at` : "created_at", "desc").orderBy("run_id", "desc");
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
  if (onlyOpen) query = query.where(notExited);
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
  return limit === undefined ? query : query.limit(limit);
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
    .select(runTable.columns)
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

function inStateDirectory({ stateId, instanceIds }: StateDirectoryScope): RawBuilder<boolean> {
  const started = equals("runs", { origin_instance_id: instanceIds });
  return sql<boolean>`(state_id = ${stateId} or (state_id is null and ${started}))`;
}
