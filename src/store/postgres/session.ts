import { Client, escapeLiteral, types } from "pg";
import type { ClientBase, ClientConfig, QueryResult } from "pg";
import { defaults } from "../../defaults.js";
import { standbyError, settingRefusedError } from "./errors.js";
import { isPooled, requireSessionPooling } from "./pooler-check.js";
import type { PostgresHost, PostgresAddress } from "../../config/postgres-url.js";

const INT8 = 20;

export interface SessionSettings {
  /** Shown by the server as the connection's name. */
  readonly name: string;
  readonly readOnly: boolean;
  readonly busyMs?: number | undefined;
}

/** Slightly longer than the server's own timeout, for a server that does not answer at all. */
export function clientTimeout(busyMs: number): number {
  return busyMs + Math.min(busyMs, 1_000);
}

/** Only parameters that PgBouncer accepts are sent at start-up; `prepareSession` sets the rest. */
export function newClient(address: PostgresAddress, host: PostgresHost, settings: SessionSettings): Client {
  return new Client(clientConfig(address, host, settings));
}

export function clientConfig(
  address: PostgresAddress,
  host: PostgresHost,
  { name, busyMs = defaults.storeBusyMs }: SessionSettings,
): ClientConfig {
  const share = Math.max(defaults.storeHostConnectMs, busyMs / address.hosts.length);
  return {
    connectionString: host.url,
    application_name: `holdfast/${name}`,
    keepAlive: true,
    connectionTimeoutMillis: Math.min(busyMs, address.connectMs ?? share),
    query_timeout: clientTimeout(busyMs),
    types: { getTypeParser },
  };
}

export interface SessionPreparation {
  readonly target: PostgresAddress;
  readonly host: PostgresHost;
  readonly settings: SessionSettings;
  /** A server that accepts only reads is sufficient. */
  readonly acceptsStandby: boolean;
  /** The pooler in front of this host, if there is one, is known to use session mode. */
  readonly poolingChecked: boolean;
}

/**
 * Runs the first statements on a new connection. Nothing is set before the pooling mode is known: with transaction
 * pooling, the settings would apply to another program next. Returns an identifier of the server, its start, the
 * database and the tables.
 */
export async function prepareSession(client: ClientBase, preparing: SessionPreparation): Promise<string> {
  const { target: address, host, settings, acceptsStandby, poolingChecked } = preparing;
  const { rows } = await client.query<{ pid: number; standBy: boolean; readOnly: boolean }>(
    `select pg_backend_pid() as pid, pg_is_in_recovery() as "standBy",
      current_setting('default_transaction_read_only') = 'on' as "readOnly"`,
  );
  const { pid = 0, standBy = false, readOnly = false } = rows[0] ?? {};
  const refused = standBy || (readOnly && address.attributes === "read-write");
  if (refused && !acceptsStandby) throw standbyError(address);
  if (!poolingChecked && isPooled(client, pid))
    await requireSessionPooling(client, newClient(address, host, settings), address);
  for (const [name, value] of address.settings)
    await client.query("select set_config($1, $2, false)", [name, value]).catch((error: unknown) => {
      throw settingRefusedError(error, address, name);
    });
  const busyMs = settings.busyMs ?? defaults.storeBusyMs;
  const wanted = {
    // A bare name can only mean a table of this schema.
    search_path: address.schema,
    statement_timeout: String(busyMs),
    // A transaction whose client is gone must not hold its locks for long.
    idle_in_transaction_session_timeout: String(busyMs),
    default_transaction_read_only: settings.readOnly ? "on" : "off",
  };
  const set = Object.entries(wanted).map(
    ([name, value]) => `set_config('${name}', ${escapeLiteral(value)}, false)`,
  );
  // A pooler without a reset query keeps the prepared statements of its last client, which may have the same names.
  // Commits survive a crash of the server, whatever its default; stricter settings stay.
  const answers = (await client.query(`deallocate all;
    select ${set.join(", ")},
      case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', false) end;
    select concat_ws(' ', pg_postmaster_start_time(), (select oid from pg_database where datname = current_database()),
      to_regclass('runs')::oid) as what`)) as unknown as readonly QueryResult<{ what: string }>[];
  return answers.at(-1)?.rows[0]?.what ?? "";
}

/** Our integers are exact as numbers: milliseconds, counts and process ids. Set here, not for the whole process. */
const getTypeParser: typeof types.getTypeParser = (oid: number, format?: "text" | "binary") =>
  oid === INT8 ? Number : (types.getTypeParser(oid, format) as never);
