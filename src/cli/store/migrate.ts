import { NotFound } from "../../errors.js";
import { resolveHome } from "../../home/state-directory.js";
import { storeLocationName } from "../../store/location.js";
import { migrateStoreAt, migrationStatusAt } from "../../store/open.js";
import type { MigrationStatus } from "../../store/sql/migrations.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator } from "../client/connect.js";
import { exitCodes } from "../print/exit-code.js";
import { print, toJson } from "../print/stdout.js";
import { parseNamedStore, storeInUse } from "./location.js";

export interface MigrateFlags {
  readonly check: boolean;
  readonly json: boolean;
}

/** Exit status 1: `check` found pending migrations. */
export async function migrateStore(wanted: string | null, { check, json }: MigrateFlags): Promise<number> {
  assertOperator("migrate a store");
  const location = wanted === null ? await storeInUse() : await parseNamedStore(wanted);
  if (location === null) {
    print(`${sanitizeLine(resolveHome())} has no store yet\n`);
    return 0;
  }
  const before = await migrationStatusAt(location);
  // A mistyped path does not create a file.
  if (wanted !== null && location.kind === "sqlite" && before.schema === null)
    throw new NotFound(`store at ${storeLocationName(location)}`);
  const due = before.pending.length > 0;
  if (due && !check) await migrateStoreAt(location);
  const status = due && !check ? await migrationStatusAt(location) : before;
  const applied = check ? [] : before.pending;
  const name = sanitizeLine(storeLocationName(location));
  if (json) print(toJson({ store: storeLocationName(location), ...status, applied }, 2));
  else print([...lines(status, name, applied), ""].join("\n"));
  return check && due ? exitCodes.refused : 0;
}

function lines(status: MigrationStatus, name: string, applied: MigrationStatus["pending"]): string[] {
  const { schema, build, pending, newer } = status;
  const has = schema === null ? "no tables yet" : `schema ${schema}`;
  return [
    `${name} has ${has}; this version knows schema ${build}`,
    ...applied.map((migration) => `applied ${migrationText(migration)}`),
    ...pending.map((migration) => `pending ${migrationText(migration)}`),
    ...newer.map(
      ({ id, name: called }) => `newer ${id} ${called}: this version does not know it, but may use the store`,
    ),
    ...(pending.length === 0 ? ["no migration is pending"] : []),
  ];
}

function migrationText({ id, name, minCompatible }: MigrationStatus["pending"][number]): string {
  const older =
    minCompatible === null
      ? "versions that do not know this migration cannot use the store afterwards"
      : `versions that know schema ${minCompatible} or later can still use the store`;
  return `${id} ${name}: ${older}`;
}
