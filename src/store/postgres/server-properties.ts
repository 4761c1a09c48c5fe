import type { Pool } from "pg";
import { DEFAULT_SCHEMA, parsePostgresUrl } from "../../config/postgres-url.js";
import { defaults } from "../../defaults.js";
import { SERVER_CLOCK } from "./engine.js";
import { translatePostgresError } from "./errors.js";
import { openPool } from "./pool.js";

/** Properties of a server that a store depends on. */
export interface ServerInfo {
  readonly label: string;
  readonly version: string;
  /** The shortest of a few round trips. */
  readonly latencyMs: number;
  /** How far its clock is ahead of ours, give or take half a round trip. */
  readonly clockAheadMs: number;
  /** The server is a stand-by and accepts only reads. */
  readonly standby: boolean;
  /** A store needs UTF8. */
  readonly encoding: string;
  /** This user may create the tables, or write to existing ones. */
  readonly writable: boolean;
  readonly fsync: boolean;
  readonly fullPageWrites: boolean;
  /** The value of our connections. */
  readonly synchronousCommit: string;
  /** Empty: a commit waits for no stand-by. */
  readonly synchronousStandbys: string;
  readonly connections: {
    /** For users like this one. */
    readonly most: number;
    /** Null: this user does not see those of others. */
    readonly used: number | null;
    readonly ours: number;
  };
}

/** The most connections of one gateway: those of its store, and one that listens. */
export const CONNECTIONS_PER_GATEWAY = defaults.storeConnections + 1;

/** Finds the tables by name, because `to_regclass` fails without the right to use the schema. */
const IS_WRITABLE = `coalesce(
  (select has_schema_privilege(tables.relnamespace, 'usage') and has_table_privilege(tables.oid, 'select')
      and has_table_privilege(tables.oid, 'insert') and has_table_privilege(tables.oid, 'update')
      and has_table_privilege(tables.oid, 'delete')
    from pg_class tables join pg_namespace named on named.oid = tables.relnamespace
    where named.nspname = '${DEFAULT_SCHEMA}' and tables.relname = 'runs'),
  (select has_schema_privilege(oid, 'create') from pg_namespace where nspname = '${DEFAULT_SCHEMA}'),
  has_database_privilege(current_database(), 'create'))`;

const INFO_QUERY = `select
  current_setting('server_encoding') as encoding,
  ${IS_WRITABLE} as writable,
  current_setting('server_version') as version,
  pg_is_in_recovery() as standby,
  current_setting('fsync') = 'on' as fsync,
  current_setting('full_page_writes') = 'on' as "fullPageWrites",
  current_setting('synchronous_commit') as "synchronousCommit",
  current_setting('synchronous_standby_names') as "synchronousStandbys",
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as most,
  case when pg_has_role('pg_read_all_stats', 'usage') then count(*)::int end as used,
  (count(*) filter (where application_name like 'holdfast/%' and pid <> pg_backend_pid()))::int as ours
from pg_stat_activity where backend_type = 'client backend'`;

type InfoRow = Omit<ServerInfo, "label" | "latencyMs" | "clockAheadMs" | "connections"> &
  ServerInfo["connections"];

/** Reads the properties of the server; changes nothing. */
export async function readServerInfo(url: string): Promise<ServerInfo> {
  const address = parsePostgresUrl(url);
  const pool = openPool(address, { name: "doctor", readOnly: true });
  try {
    const { rows } = await pool.query<InfoRow>(INFO_QUERY);
    const { most, used, ours, ...facts } = rows[0] as InfoRow;
    return {
      label: address.label,
      ...facts,
      ...(await measureClock(pool)),
      connections: { most, used, ours },
    };
  } catch (error) {
    throw translatePostgresError(error, address, "connecting");
  } finally {
    await pool.end();
  }
}

const CLOCK_SAMPLES = 5;

async function measureClock(pool: Pool): Promise<Pick<ServerInfo, "latencyMs" | "clockAheadMs">> {
  let best = { latencyMs: Infinity, clockAheadMs: 0 };
  for (let sample = 0; sample < CLOCK_SAMPLES; sample += 1) {
    const began = performance.now();
    const { rows } = await pool.query<{ now: number }>(`select ${SERVER_CLOCK} as now`);
    const latencyMs = performance.now() - began;
    if (latencyMs < best.latencyMs)
      best = { latencyMs, clockAheadMs: (rows[0]?.now ?? Number.NaN) - (Date.now() - latencyMs / 2) };
  }
  return best;
}
