import { Pool, types } from "pg";
import type { PoolConfig } from "pg";
import { defaults } from "../../defaults.js";
import { isStandBy } from "./errors.js";
import type { PostgresTarget } from "./target.js";

const INT8 = 20;

export interface SessionSettings {
  /** Shown by the server as the connection's name. */
  readonly name: string;
  readonly readOnly: boolean;
  readonly busyMs?: number | undefined;
}

/** A little later than the server, for one that does not even say so. */
export function clientTimeout(busyMs: number): number {
  return busyMs + Math.min(busyMs, 1_000);
}

/** What every connection to the store is like. */
export function clientConfig(target: PostgresTarget, session: SessionSettings): PoolConfig {
  const { name, readOnly, busyMs = defaults.storeBusyMs } = session;
  const settings = {
    // Nobody else's tables can be meant by a bare name.
    search_path: target.schema,
    // A transaction whose client has vanished must not hold its locks for long.
    idle_in_transaction_session_timeout: busyMs,
    default_transaction_read_only: readOnly ? "on" : "off",
  };
  const options = Object.entries(settings).map(([key, value]) => `-c ${key}=${value}`);
  return {
    connectionString: target.url,
    application_name: `holdfast/${name}`,
    options: [target.options, ...options].join(" ").trim(),
    keepAlive: true,
    connectionTimeoutMillis: busyMs,
    statement_timeout: busyMs,
    query_timeout: clientTimeout(busyMs),
    types: { getTypeParser },
  };
}

/** `met` is told what each new connection leads to: this start of this server, this database, these tables. */
export function openPool(
  target: PostgresTarget,
  settings: SessionSettings,
  met: (what: string) => void = () => {},
): Pool {
  const pool = new Pool({
    ...clientConfig(target, settings),
    max: defaults.storeConnections,
    min: 1,
    idleTimeoutMillis: defaults.storeIdleMs,
    // An idle connection is no reason for a process to stay.
    allowExitOnIdle: true,
    // What is committed survives the server's death, whatever its default. Stricter settings stay.
    // oxlint-disable-next-line typescript/no-misused-promises -- the pool waits for it; its types do not say so.
    onConnect: async (client) => {
      const { rows } = await client.query<{ standBy: boolean; what: string }>(
        `select pg_is_in_recovery() as "standBy",
          concat_ws(' ', pg_postmaster_start_time(), (select oid from pg_database where datname = current_database()),
            to_regclass('runs')::oid) as what,
          case when current_setting('synchronous_commit') = 'off'
            then set_config('synchronous_commit', 'on', false) end`,
      );
      if (rows[0]?.standBy === true && !settings.readOnly) throw isStandBy(target);
      met(rows[0]?.what ?? "");
    },
  });
  // Whoever uses a connection that is lost hears of it from the statement.
  pool.on("error", () => {});
  pool.on("connect", (client) => client.on("error", () => {}));
  return pool;
}

/** Our integers are exact as numbers: milliseconds, counts and process ids. Set here, not for the whole process. */
const getTypeParser: typeof types.getTypeParser = (oid: number, format?: "text" | "binary") =>
  oid === INT8 ? Number : (types.getTypeParser(oid, format) as never);
