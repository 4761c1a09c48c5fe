import { databaseUrl } from "../../config/database-url.js";
import { NotFound } from "../../errors.js";
import { resolveHome } from "../../home/state-directory.js";
import { copyStore } from "../../store/copy/copy-store.js";
import {
  parseStoreLocation,
  showsPassword,
  type StoreLocation,
  storeLocationName,
} from "../../store/location.js";
import { checkStoreAt, migrateStoreAt, migrationStatusAt } from "../../store/open.js";
import { findStateDirectory } from "../../store/open-state-directory.js";
import type { MigrationStatus } from "../../store/sql/migrations.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { assertOperator } from "../client/connect.js";
import type { JsonFlag } from "../options/command-definition.js";
import { exitCodes } from "../print/exit-code.js";
import { notice } from "../print/errors-and-notices.js";
import { print, toJson } from "../print/write-output.js";
import { printTable } from "../print/table.js";
import { isCapableTerminal, ProgressLine } from "../print/colours-and-progress.js";

/** The store that an argument names. */
async function parseNamedStore(word: string): Promise<StoreLocation> {
  if (showsPassword(word)) {
    // Process lists show this title instead of the URL.
    process.title = "holdfast store";
    notice(
      "the command line has a password, which others may have seen; use env:NAME or url-file:PATH",
      "yellow",
    );
  }
  return parseStoreLocation(word);
}

/** The store that commands use by default. Null: no database is configured and there is no state directory yet. */
async function storeInUse(): Promise<StoreLocation | null> {
  const url = await databaseUrl();
  if (url !== null) return { kind: "postgres", url };
  const directory = await findStateDirectory(resolveHome());
  return directory === null ? null : { kind: "sqlite", path: directory.storePath };
}

export async function printStoreCheck(
  wanted: string | undefined,
  { json = false }: JsonFlag,
): Promise<number> {
  const location = wanted === undefined ? await storeInUse() : await parseNamedStore(wanted);
  const found = location === null ? null : await checkStoreAt(location);
  const name = location === null ? resolveHome() : storeLocationName(location);
  if (wanted !== undefined && found === null) throw new NotFound(`store at ${name}`);
  if (json) print(toJson({ store: name, ...found, exists: found !== null }, 2));
  else if (found === null) print(`${sanitizeLine(name)} has no records yet\n`);
  else {
    const { schema, damage, runs, events } = found;
    const state = damage === null ? "can be used" : `is damaged: ${damage}`;
    const counts = `schema ${schema}, ${runs.open} open and ${runs.ended} ended runs, ${events} events`;
    print(`${sanitizeLine(`${name} ${state}; ${counts}`)}\n`);
  }
  return (found?.damage ?? null) === null ? 0 : exitCodes.refused;
}

interface CopyFlags extends JsonFlag {
  readonly from: string;
  readonly to: string;
}

export async function copyStoreRecords(flags: CopyFlags): Promise<number> {
  assertOperator("copy a store");
  const [from, to] = await Promise.all([parseNamedStore(flags.from), parseNamedStore(flags.to)]);
  using progress = new ProgressLine(isCapableTerminal(2));
  const tables = await copyStore({
    from,
    to,
    home: resolveHome(),
    onProgress: (name, rows) => progress.show(name, String(rows)),
    onIncomplete: (what) => notice(what, "yellow"),
  });
  progress.clear();
  const names = { from: storeLocationName(from), to: storeLocationName(to) };
  if (flags.json === true) {
    print(toJson({ ...names, tables }, 2));
    return 0;
  }
  printTable(
    ["TABLE", "ROWS", "CHECKSUM"],
    tables.map((each) => [each.table, String(each.rows), each.checksum]),
    null,
  );
  print(
    `copied from ${sanitizeLine(names.from)} to ${sanitizeLine(names.to)}; every table has the same rows and checksum on both sides\n`,
  );
  return 0;
}

interface MigrateFlags extends JsonFlag {
  readonly check?: boolean;
}

/** Exit status 1: `check` found pending migrations. */
export async function migrateStore(
  wanted: string | undefined,
  { check = false, json = false }: MigrateFlags,
): Promise<number> {
  assertOperator("migrate a store");
  const location = wanted === undefined ? await storeInUse() : await parseNamedStore(wanted);
  if (location === null) {
    print(`${sanitizeLine(resolveHome())} has no store yet\n`);
    return 0;
  }
  const before = await migrationStatusAt(location);
  // A mistyped path does not create a file.
  if (wanted !== undefined && location.kind === "sqlite" && before.schema === null)
    throw new NotFound(`store at ${storeLocationName(location)}`);
  const due = before.pending.length > 0;
  if (due && !check) await migrateStoreAt(location);
  const status = due && !check ? await migrationStatusAt(location) : before;
  const applied = check ? [] : before.pending;
  const name = sanitizeLine(storeLocationName(location));
  if (json) print(toJson({ store: storeLocationName(location), ...status, applied }, 2));
  else print([...migrationLines(status, name, applied), ""].join("\n"));
  return check && due ? exitCodes.refused : 0;
}

function migrationLines(
  status: MigrationStatus,
  name: string,
  applied: MigrationStatus["pending"],
): string[] {
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
