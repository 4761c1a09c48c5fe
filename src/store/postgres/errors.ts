import { DatabaseError } from "pg";
import { StateUnusable, StoreAway } from "../../errors.js";
import type { PostgresAddress } from "../../config/postgres-url.js";

/** When the driver failed: at the first connection, at a later connection, or while an answer was outstanding. */
type Phase = "connecting" | "reconnecting" | "executing";

const RUNS_CONTINUE = "no new run is started; running ones continue and can still be stopped.";
const CONSEQUENCE = `Nothing was recorded and ${RUNS_CONTINUE}`;
const UNCERTAIN = `Whether the last change was recorded is not known; ${RUNS_CONTINUE}`;

/** By SQLSTATE, or by its first two letters: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const MESSAGES: Readonly<Record<string, string>> = {
  "08": `lost the connection. ${UNCERTAIN} Try again.`,
  "25006": `accepts only reads: it is a stand-by, or set to read-only. ${CONSEQUENCE} Use the address of the primary.`,
  "28": `refuses this user. ${CONSEQUENCE} Check user and password in its address.`,
  "3D000": `does not exist. ${CONSEQUENCE} Create it, or use the address of another.`,
  "40": `was too busy with conflicting changes. ${CONSEQUENCE} Try again.`,
  "42501": `does not permit this user to do that. ${CONSEQUENCE} Grant it the schema, or the right to create one.`,
  "53": `has no room: space, memory or connections. ${CONSEQUENCE} See its log.`,
  "55P03": `kept a lock for too long. ${CONSEQUENCE} Try again.`,
  "57014": `took too long. ${CONSEQUENCE} Try again.`,
  "57": `is being stopped or started. ${UNCERTAIN} Try again.`,
  "58": `reported a system error. ${CONSEQUENCE} See its log.`,
  XX: `is damaged, or had an internal error. ${CONSEQUENCE} See its log before relying on it.`,
};

/** The server may recover from these by itself, or another server may replace it. */
const TRANSIENT_STATES = ["08", "25006", "53", "55P03", "57014", "57"];

/** Errors of PgBouncer, recognized by a part of the message, because all of them have the same code. https://www.pgbouncer.org/config.html */
const POOLER_MESSAGES: readonly (readonly [RegExp, typeof StoreAway | typeof StateUnusable, string])[] = [
  [
    /no more connections allowed/,
    StoreAway,
    `is behind a pooler that accepts no more clients (max_client_conn). ${CONSEQUENCE} Raise max_client_conn, or use fewer gateways.`,
  ],
  [
    /query_wait_timeout/,
    StoreAway,
    `is behind a pooler that has no server connection left. ${CONSEQUENCE} Raise default_pool_size: a gateway needs up to 5.`,
  ],
  [
    /server login has been failing|server_login_retry|cannot connect to server|server conn|connect failed|login timeout/,
    StoreAway,
    `is behind a pooler that cannot reach the server now. ${CONSEQUENCE} Check that the server runs; the pooler tries again after its server_login_retry.`,
  ],
  [
    /no such database|does not exist/,
    StateUnusable,
    `does not exist according to the pooler in front of it. ${CONSEQUENCE} Add it to the section [databases] of the pooler's configuration, or use the address of another database.`,
  ],
  [
    /no such user|auth failed|authentication failed|login rejected|login failed/,
    StateUnusable,
    `refuses this user according to the pooler in front of it. ${CONSEQUENCE} Check user and password in the address, and auth_file of the pooler.`,
  ],
  [
    /unsupported startup parameter/,
    StateUnusable,
    `is behind a pooler that refuses a start-up parameter. ${CONSEQUENCE} Name it in the pooler's ignore_startup_parameters.`,
  ],
];

/** A writer cannot use a server that accepts only reads; it waits for the primary. */
export function standbyError({ label }: PostgresAddress): StoreAway {
  return new Standby(label, `the ${label} ${MESSAGES["25006"]}`);
}

class Standby extends StoreAway {}

export function isStandbyError(error: unknown): boolean {
  return error instanceof Standby;
}

export function sessionPoolingRequired({ label }: PostgresAddress): StateUnusable {
  return new StateUnusable(
    label,
    `the ${label} is behind a pooler that gives a client another server connection for each transaction (transaction or statement pooling). ${CONSEQUENCE} Set pool_mode = session for this database in the pooler's configuration, or use the address of the server itself.`,
  );
}

/** A statement that was not sent, because an earlier one is unanswered. */
export function serverHangsError({ label }: PostgresAddress, cause: unknown): StoreAway {
  return new StoreAway(
    label,
    `the ${label} does not answer; the statement was not sent. ${CONSEQUENCE} Try again.`,
    { cause },
  );
}

/** A second connection got no answer while the first one did. */
export function poolFullError({ label }: PostgresAddress, cause: unknown): StoreAway {
  return new StoreAway(
    label,
    `the ${label} is behind a pooler that has no server connection left for a second client. ${CONSEQUENCE} Raise default_pool_size of the pooler: a gateway needs up to 5.`,
    { cause },
  );
}

/** `options` of the address names a setting that the server refuses. The value is not shown, because it may be a secret. */
export function settingRefusedError(error: unknown, address: PostgresAddress, name: string): unknown {
  const translated = translatePostgresError(error, address, "connecting");
  if (translated !== error) return translated;
  const { label } = address;
  return new StateUnusable(
    label,
    `the ${label} refuses the setting ${redactAddressSecrets(name, address)} in the options of its address. ${CONSEQUENCE} Correct or remove the setting.`,
  );
}

export interface HostFailure {
  readonly at: number;
  readonly host: string;
  readonly error: unknown;
}

/** No host accepted the connection. An error that waiting does not resolve takes precedence over the others. */
export function noHostReachable(address: PostgresAddress, failures: readonly HostFailure[]): unknown {
  const { label } = address;
  const lasting = failures.find(({ error }) => {
    const state = error instanceof DatabaseError ? (error.code ?? "") : "";
    return state === "3D000" || state.startsWith("28");
  });
  if (lasting !== undefined) return lasting.error;
  const reasons = failures.map(({ host, error }) => {
    const why = isStandbyError(error) ? "accepts only reads" : redactAddressSecrets(reason(error), address);
    return `${host}: ${why}`;
  });
  const causes = failures.map(({ error }) => error);
  return new StoreAway(
    label,
    `the ${label} cannot be reached at any of its hosts (${reasons.join("; ")}). ${CONSEQUENCE} Check that one of the hosts runs as the primary.`,
    { cause: new AggregateError(causes) },
  );
}

/** True if another host may accept the connection: a stand-by can lag behind and not know a new user or database. */
export function shouldTryNextHost(error: unknown): boolean {
  if (error instanceof StateUnusable) return error instanceof StoreAway;
  return !isFileError(error) && !isPoolBusy(error);
}

/** The driver's pool had no free connection in time, so no host was contacted. */
function isPoolBusy(error: unknown): boolean {
  return error instanceof Error && error.message === "timeout exceeded when trying to connect";
}

/** The error with a message for the user. Errors of this program (bad SQL) are returned unchanged. */
export function translatePostgresError(error: unknown, address: PostgresAddress, phase: Phase): unknown {
  if (error instanceof StateUnusable) return error;
  const { label } = address;
  const state = error instanceof DatabaseError ? (error.code ?? "") : null;
  // A database that existed when the store was opened is being replaced.
  const Unusable = phase === "reconnecting" ? StoreAway : StateUnusable;
  if (state === null && isFileError(error))
    return new Unusable(
      label,
      `the ${label} was not contacted: a certificate or key that its address names cannot be read (${redactAddressSecrets(reason(error), address)}). ${CONSEQUENCE} Check sslrootcert, sslcert and sslkey.`,
      { cause: error },
    );
  if (state === null) {
    // The server sent no error, so there is no connection.
    const what =
      phase !== "executing"
        ? `cannot be reached (${redactAddressSecrets(reason(error), address)}). ${CONSEQUENCE} Check that it runs, and its address.`
        : `did not answer (${redactAddressSecrets(reason(error), address)}). ${UNCERTAIN} Try again.`;
    return new StoreAway(label, `the ${label} ${what}`, { cause: error });
  }
  const pooler = state.startsWith("08")
    ? POOLER_MESSAGES.find(([pattern]) => pattern.test(reason(error)))
    : undefined;
  if (pooler !== undefined) {
    const [, Meant, sentence] = pooler;
    return new Meant(label, `the ${label} ${sentence}`, { cause: error });
  }
  const key = state in MESSAGES ? state : state.slice(0, 2);
  const sentence = MESSAGES[key];
  if (sentence === undefined) return error;
  const Meant = TRANSIENT_STATES.includes(key) ? StoreAway : key === "3D000" ? Unusable : StateUnusable;
  return new Meant(label, `the ${label} ${sentence}`, { cause: error });
}

/** A schema, table, column or function is missing: the database was restored or replaced. */
const MISSING_OBJECT_STATES = ["3F000", "42P01", "42703", "42883"];

export function isMissingSchema(error: unknown): boolean {
  return error instanceof DatabaseError && MISSING_OBJECT_STATES.includes(error.code ?? "");
}

/** Serialization failure, deadlock, and a prepared plan that a migration has changed: nothing was done. */
const CONFLICT_STATES = ["40001", "40P01", "0A000"];

/** A conflict with another transaction: nothing was done, and the steps can be repeated on a new connection. */
export function isConflict(error: unknown): boolean {
  const cause = error instanceof StateUnusable ? error.cause : error;
  return cause instanceof DatabaseError && CONFLICT_STATES.includes(cause.code ?? "");
}

/** A file that the address names cannot be read. No server was contacted. */
function isFileError(error: unknown): boolean {
  const { syscall, code } = Object(error) as NodeJS.ErrnoException;
  return syscall === "open" || code === "EISDIR";
}

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  return error.message === "" ? code : error.message;
}

function redactAddressSecrets(text: string, { secrets }: PostgresAddress): string {
  return secrets.reduce((shown, secret) => shown.replaceAll(secret, "***"), text);
}
