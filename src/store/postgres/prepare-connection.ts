import { Client, type ClientBase, type ClientConfig, escapeLiteral, type QueryResult, types } from "pg";
import type { PostgresAddress, PostgresHost } from "../../config/postgres-url.js";
import { defaults } from "../../defaults.js";
import {
  poolFullError,
  sessionPoolingRequired,
  settingRefusedError,
  standbyError,
  translatePostgresError,
} from "./errors.js";

/** Other clients of a busy pooler can hide what one round would show. */
const ROUNDS = 3;

/** True if a pooler answers in the server's place: it reports another process id than the server's, for cancel requests. */
function isPooled(client: ClientBase, backendPid: number): boolean {
  return (client as ClientBase & { readonly processID: number | null }).processID !== backendPid;
}

/**
 * Rejects unless the pooler keeps one server connection for each client connection. With transaction pooling, the
 * transaction of a second client takes the server connection that the first has just used (the last one released is
 * the next one assigned), or the first gets another at its next statement (round-robin pools).
 */
async function requireSessionPooling(
  first: ClientBase,
  second: Client,
  address: PostgresAddress,
): Promise<void> {
  second.on("error", () => {});
  try {
    await askSecondClient(second.connect(), first, address);
    for (let round = 0; round < ROUNDS; round += 1) {
      const pid = await backendPidOf(first);
      if ((await backendPidOf(first)) !== pid) throw sessionPoolingRequired(address);
      await askSecondClient(second.query("begin"), first, address);
      if ((await askSecondClient(backendPidOf(second), first, address)) === pid)
        throw sessionPoolingRequired(address);
      if ((await backendPidOf(first)) !== pid) throw sessionPoolingRequired(address);
      await second.query("rollback");
    }
  } finally {
    second.end().catch(() => {});
  }
}

async function backendPidOf(client: ClientBase): Promise<number> {
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  return rows[0]?.pid ?? 0;
}

/** If the second client is refused while the first is answered, the pooler has refused it. */
async function askSecondClient<Answer>(
  answer: Promise<Answer>,
  first: ClientBase,
  address: PostgresAddress,
): Promise<Answer> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof Error && error.message.includes("statement pooling"))
      throw sessionPoolingRequired(address);
    const translated = translatePostgresError(error, address, "connecting");
    await backendPidOf(first);
    // The pooler sent no error: the client waits for a server connection.
    throw "severity" in Object(error) ? translated : poolFullError(address, error);
  }
}

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

interface SessionPreparation {
  readonly target: PostgresAddress;
  readonly host: PostgresHost;
  readonly settings: SessionSettings;
  /** A server that accepts only reads is sufficient. */
  readonly acceptsStandby: boolean;
  /** The pooler in front of this host, if there is one, is known to use session mode. */
  readonly poolingChecked: boolean;
}

/**
 * Makes writes find their rows by an index. Without these settings, a plan that was made while a table was small would read
 * the whole table for every write until the table is analyzed.
 */
const FIND_BY_INDEX = { enable_seqscan: "off", enable_hashjoin: "off", enable_mergejoin: "off" };

/**
 * Switches just-in-time compilation off, because all statements are short. Under `FIND_BY_INDEX` the estimated cost of a
 * relation that has no index (a sequence, for example) is so high that the server would compile the plan at every
 * execution, which takes ten milliseconds and more.
 */
const NEVER_COMPILE = { jit: "off" };

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
    ...NEVER_COMPILE,
    ...(settings.readOnly ? {} : FIND_BY_INDEX),
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
