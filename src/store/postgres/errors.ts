import { DatabaseError } from "pg";
import { StateUnusable, StoreAway } from "../../errors.js";
import type { PostgresTarget } from "./target.js";

/** When the driver failed: before anything was sent, the first time or where it has been before; or when the answer was outstanding. */
export type Phase = "connecting" | "reconnecting" | "asking";

const goesOn = "nothing new is started; what already runs goes on and can still be stopped.";
const consequence = `Nothing was recorded and ${goesOn}`;
const uncertain = `Whether the last change was recorded is not known; ${goesOn}`;

/** By SQLSTATE, or by its first two letters: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const sentences: Readonly<Record<string, string>> = {
  "08": `lost the connection. ${uncertain} Try again.`,
  "25006": `only lets itself be read: a stand-by, or set to be so. ${consequence} Use the address of the primary.`,
  "28": `does not let this user in. ${consequence} Check user and password in its address.`,
  "3D000": `does not exist. ${consequence} Create it, or use the address of another.`,
  "40": `was too busy with conflicting changes. ${consequence} Try again.`,
  "42501": `does not let this user do that. ${consequence} Grant it the schema, or the right to create one.`,
  "53": `has no room: space, memory or connections. ${consequence} See its log.`,
  "55P03": `kept a lock for too long. ${consequence} Try again.`,
  "57014": `took too long. ${consequence} Try again.`,
  "57": `is being stopped or started. ${uncertain} Try again.`,
  "58": `reported a system error. ${consequence} See its log.`,
  XX: `is damaged, or has met an error of its own. ${consequence} See its log before relying on it.`,
};

/** Of these the server may recover, or another take its place, without anybody's help. */
const passing = ["08", "25006", "53", "55P03", "57014", "57"];

/** Errors of PgBouncer, recognized by a part of the message, because all of them have the same code. https://www.pgbouncer.org/config.html */
const poolerSentences: readonly (readonly [RegExp, typeof StoreAway | typeof StateUnusable, string])[] = [
  [
    /no more connections allowed/,
    StoreAway,
    `is behind a pooler that accepts no more clients (max_client_conn). ${consequence} Raise max_client_conn, or use fewer gateways.`,
  ],
  [
    /query_wait_timeout/,
    StoreAway,
    `is behind a pooler that has no server connection left. ${consequence} Raise default_pool_size: a gateway needs up to 5.`,
  ],
  [
    /server login has been failing|server_login_retry|cannot connect to server|server conn|connect failed|login timeout/,
    StoreAway,
    `is behind a pooler that cannot reach the server now. ${consequence} Check that the server runs; the pooler tries again after its server_login_retry.`,
  ],
  [
    /no such database|does not exist/,
    StateUnusable,
    `does not exist according to the pooler in front of it. ${consequence} Add it to the section [databases] of the pooler's configuration, or use the address of another database.`,
  ],
  [
    /no such user|auth failed|authentication failed|login rejected|login failed/,
    StateUnusable,
    `refuses this user according to the pooler in front of it. ${consequence} Check user and password in the address, and auth_file of the pooler.`,
  ],
  [
    /unsupported startup parameter/,
    StateUnusable,
    `is behind a pooler that refuses a start-up parameter. ${consequence} Name it in the pooler's ignore_startup_parameters.`,
  ],
];

/** A server that can only be read is of no use to who must write: it waits for one that can be written. */
export function isStandBy({ label }: PostgresTarget): StoreAway {
  return new StandBy(label, `the ${label} ${sentences["25006"]}`);
}

class StandBy extends StoreAway {}

export function isStandByError(error: unknown): boolean {
  return error instanceof StandBy;
}

export function notSessionPooling({ label }: PostgresTarget): StateUnusable {
  return new StateUnusable(
    label,
    `the ${label} is behind a pooler that gives a client another server connection for each transaction (transaction or statement pooling). ${consequence} Set pool_mode = session for this database in the pooler's configuration, or use the address of the server itself.`,
  );
}

/** A statement that was not sent, because the server has left one unanswered and not answered since. */
export function isHanging({ label }: PostgresTarget, cause: unknown): StoreAway {
  return new StoreAway(
    label,
    `the ${label} does not answer, and was not asked again. ${consequence} Try again.`,
    { cause },
  );
}

/** A second connection got no answer while the first one did. */
export function poolIsFull({ label }: PostgresTarget, cause: unknown): StoreAway {
  return new StoreAway(
    label,
    `the ${label} is behind a pooler that has no server connection left for a second client. ${consequence} Raise default_pool_size of the pooler: a gateway needs up to 5.`,
    { cause },
  );
}

/** `options` of the address names a setting that the server refuses. The value is not shown, because it may be a secret. */
export function refusesSetting(error: unknown, target: PostgresTarget, name: string): unknown {
  const translated = translatePostgresError(error, target, "connecting");
  if (translated !== error) return translated;
  const { label } = target;
  return new StateUnusable(
    label,
    `the ${label} refuses the setting ${hide(name, target)} in the options of its address. ${consequence} Correct or remove the setting.`,
  );
}

export interface HostFailure {
  readonly at: number;
  readonly host: string;
  readonly error: unknown;
}

/** No host accepted the connection. An error that waiting does not resolve takes precedence over the others. */
export function noServer(target: PostgresTarget, failures: readonly HostFailure[]): unknown {
  const { label } = target;
  const lasting = failures.find(({ error }) => {
    const state = error instanceof DatabaseError ? (error.code ?? "") : "";
    return state === "3D000" || state.startsWith("28");
  });
  if (lasting !== undefined) return lasting.error;
  const told = failures.map(({ host, error }) => {
    const why = isStandByError(error) ? "accepts only reads" : hide(reason(error), target);
    return `${host}: ${why}`;
  });
  const causes = failures.map(({ error }) => error);
  return new StoreAway(
    label,
    `the ${label} cannot be reached at any of its hosts (${told.join("; ")}). ${consequence} Check that one of the hosts runs as the primary.`,
    { cause: new AggregateError(causes) },
  );
}

/** Whether another host may accept the connection: a stand-by can lag behind and not know a new user or database. */
export function triesNextHost(error: unknown): boolean {
  if (error instanceof StateUnusable) return error instanceof StoreAway;
  return !isOfFile(error) && !isPoolBusy(error);
}

/** The driver's pool had no free connection in time, so no host was contacted. */
function isPoolBusy(error: unknown): boolean {
  return error instanceof Error && error.message === "timeout exceeded when trying to connect";
}

/** The same error, or what it means for the person who meets it. Our own mistakes (bad SQL) stay what they are. */
export function translatePostgresError(error: unknown, target: PostgresTarget, phase: Phase): unknown {
  if (error instanceof StateUnusable) return error;
  const { label } = target;
  const state = error instanceof DatabaseError ? (error.code ?? "") : null;
  // What was there when the store was opened is being replaced.
  const Unusable = phase === "reconnecting" ? StoreAway : StateUnusable;
  if (state === null && isOfFile(error))
    return new Unusable(
      label,
      `the ${label} is not asked: a certificate or key that its address names cannot be read (${hide(reason(error), target)}). ${consequence} Check sslrootcert, sslcert and sslkey.`,
      { cause: error },
    );
  if (state === null) {
    // Not a word from the server: whatever it is, there is no connection.
    const told =
      phase !== "asking"
        ? `cannot be reached (${hide(reason(error), target)}). ${consequence} Check that it runs, and its address.`
        : `did not answer (${hide(reason(error), target)}). ${uncertain} Try again.`;
    return new StoreAway(label, `the ${label} ${told}`, { cause: error });
  }
  const pooler = state.startsWith("08")
    ? poolerSentences.find(([said]) => said.test(reason(error)))
    : undefined;
  if (pooler !== undefined) {
    const [, Meant, sentence] = pooler;
    return new Meant(label, `the ${label} ${sentence}`, { cause: error });
  }
  const key = state in sentences ? state : state.slice(0, 2);
  const sentence = sentences[key];
  if (sentence === undefined) return error;
  const Meant = passing.includes(key) ? StoreAway : key === "3D000" ? Unusable : StateUnusable;
  return new Meant(label, `the ${label} ${sentence}`, { cause: error });
}

/** Schema, table, column or function: what the migrations made is not there, since the database was put back or replaced. */
const missing = ["3F000", "42P01", "42703", "42883"];

export function lacksSchema(error: unknown): boolean {
  return error instanceof DatabaseError && missing.includes(error.code ?? "");
}

/** Serialization failure and deadlock: the server has undone it. Plan changed under us, by a migration: it was not begun. */
const conflicts = ["40001", "40P01", "0A000"];

/** Others were in the way and nothing was done: it can be done again from the start, on a new connection. */
export function isConflict(error: unknown): boolean {
  const cause = error instanceof StateUnusable ? error.cause : error;
  return cause instanceof DatabaseError && conflicts.includes(cause.code ?? "");
}

/** A file that the address names cannot be read. No server was asked. */
function isOfFile(error: unknown): boolean {
  const { syscall, code } = Object(error) as NodeJS.ErrnoException;
  return syscall === "open" || code === "EISDIR";
}

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  return error.message === "" ? code : error.message;
}

function hide(text: string, { secrets }: PostgresTarget): string {
  return secrets.reduce((shown, secret) => shown.replaceAll(secret, "***"), text);
}
