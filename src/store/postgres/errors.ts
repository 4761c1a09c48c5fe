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

/** A server that can only be read is of no use to who must write: it waits for one that can be written. */
export function isStandBy({ label }: PostgresTarget): StoreAway {
  return new StoreAway(label, `the ${label} ${sentences["25006"]}`);
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
