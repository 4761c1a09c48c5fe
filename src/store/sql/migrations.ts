import { StateUnusable, StoreOutdated } from "../../errors.js";
import * as runs from "./migrations/0001-runs.js";
import * as runEvents from "./migrations/0002-run-events.js";
import * as origin from "./migrations/0003-origin.js";
import * as sessions from "./migrations/0004-sessions.js";
import * as limits from "./migrations/0005-limits.js";
import * as services from "./migrations/0006-services.js";
import * as sessionOfRun from "./migrations/0007-session-of-run.js";
import * as gateways from "./migrations/0008-gateways.js";
import * as commands from "./migrations/0009-commands.js";
import * as whose from "./migrations/0010-whose.js";
import * as sessionMessages from "./migrations/0011-session-messages.js";
import * as acp from "./migrations/0012-acp.js";
import * as tasks from "./migrations/0013-tasks.js";
import * as timeNamespace from "./migrations/0014-time-namespace.js";

/** Forward only: an entry is never edited once it has been released, only followed by another. */
export const migrations = [
  { id: 1, name: "runs", sql: runs.sql },
  { id: 2, name: "run-events", sql: runEvents.sql },
  { id: 3, name: "origin", sql: origin.sql },
  { id: 4, name: "sessions", sql: sessions.sql },
  { id: 5, name: "limits", sql: limits.sql },
  { id: 6, name: "services", sql: services.sql },
  { id: 7, name: "session-of-run", sql: sessionOfRun.sql },
  { id: 8, name: "gateways", sql: gateways.sql },
  { id: 9, name: "commands", sql: commands.sql },
  { id: 10, name: "whose", sql: whose.sql },
  { id: 11, name: "session-messages", sql: sessionMessages.sql },
  { id: 12, name: "acp", sql: acp.sql },
  { id: 13, name: "tasks", sql: tasks.sql },
  { id: 14, name: "time-namespace", sql: timeNamespace.sql },
] as const;

export type Migration = (typeof migrations)[number];

/** All tables of a store, each after those that it refers to. */
export const tables: readonly string[] = migrations.flatMap(({ sql }) =>
  [...sql.matchAll(/create table (\w+)/g)].map(([, name = ""]) => name),
);

const newest = migrations[migrations.length - 1]?.id ?? 0;

/** A store, as errors name it, and what to set to use another. */
export interface Place {
  readonly path: string;
  readonly otherwise: string;
}

export function otherProgram({ path, otherwise }: Place): StateUnusable {
  return new StateUnusable(
    path,
    `${path} is a database of some other program; it is left as it is. Move it away, or ${otherwise}.`,
  );
}

/** Which are not recorded, whatever comes after them. */
export function missingFrom(
  { path, otherwise }: Place,
  recorded: readonly { readonly id: number }[],
): readonly Migration[] {
  const applied = new Set(recorded.map(({ id }) => id));
  const version = Math.max(0, ...applied);
  if (version > newest) {
    throw new StateUnusable(
      path,
      `the store ${path} was written by a newer Holdfast (schema ${version}, this one knows ${newest}); it is left as it is and nothing is started. Upgrade Holdfast, or ${otherwise}.`,
    );
  }
  return migrations.filter(({ id }) => !applied.has(id));
}

/** For readers, who may not migrate. */
export function requireNoneMissing({ path }: Place, [first]: readonly Migration[]): void {
  if (first === undefined) return;
  throw new StoreOutdated(
    path,
    `the store ${path} was written by an older Holdfast (schema ${first.id - 1}, this one reads ${newest}); it was only going to be read, so nothing was changed. Any command that starts a run brings it up to date.`,
  );
}
