import { NotFound } from "../../errors.js";
import { sanitizeLine } from "../../output/sanitize.js";
import { migratePlace, migrationsOf } from "../../store/open.js";
import { nameOf } from "../../store/place.js";
import type { MigrationStatus } from "../../store/sql/migrations.js";
import { resolveHome } from "../../store/state-directory.js";
import { exitCodes } from "../exit-code.js";
import { mustBeOperator } from "../gateway/connect.js";
import { toJson } from "../json.js";
import { print } from "../runs/print.js";
import { namedStore, storeInUse } from "./named-store.js";

export interface MigrateFlags {
  readonly check: boolean;
  readonly json: boolean;
}

/** Exit status 1: `check` found pending migrations. */
export async function migrateStore(wanted: string | null, { check, json }: MigrateFlags): Promise<number> {
  mustBeOperator("migrate a store");
  const place = wanted === null ? await storeInUse() : await namedStore(wanted);
  if (place === null) {
    print(`${sanitizeLine(resolveHome())} has no store yet\n`);
    return 0;
  }
  const before = await migrationsOf(place);
  // A file that was named by mistake is not created.
  if (wanted !== null && place.kind === "sqlite" && before.schema === null)
    throw new NotFound(`store at ${nameOf(place)}`);
  const due = before.pending.length > 0;
  if (due && !check) await migratePlace(place);
  const status = due && !check ? await migrationsOf(place) : before;
  const applied = check ? [] : before.pending;
  const name = sanitizeLine(nameOf(place));
  if (json) print(toJson({ store: nameOf(place), ...status, applied }, 2));
  else print([...lines(status, name, applied), ""].join("\n"));
  return check && due ? exitCodes.refused : 0;
}

function lines(status: MigrationStatus, name: string, applied: MigrationStatus["pending"]): string[] {
  const { schema, build, pending, newer } = status;
  const has = schema === null ? "no tables yet" : `schema ${schema}`;
  return [
    `${name} has ${has}; this version knows schema ${build}`,
    ...applied.map((migration) => `applied ${describe(migration)}`),
    ...pending.map((migration) => `pending ${describe(migration)}`),
    ...newer.map(
      ({ id, name: called }) => `newer ${id} ${called}: this version does not know it, but may use the store`,
    ),
    ...(pending.length === 0 ? ["no migration is pending"] : []),
  ];
}

function describe({ id, name, minCompatible }: MigrationStatus["pending"][number]): string {
  const older =
    minCompatible === null
      ? "versions that do not know this migration cannot use the store afterwards"
      : `versions that know schema ${minCompatible} or later can still use the store`;
  return `${id} ${name}: ${older}`;
}
